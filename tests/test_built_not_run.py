from harness.runner.environment import built_not_run


def test_architectures_that_were_built_but_not_run_are_named() -> None:
    text = "CUDA 13.0.88, sm 90-real 100-real 120-real 90-virtual"
    assert built_not_run(text, "9.0") == ("sm_100", "sm_120")
    assert built_not_run(text, "12.0") == ("sm_90", "sm_100")
    assert built_not_run("sm 90a-real", "9.0") == ()
    assert built_not_run("emulated on the CPU", "") == ()
