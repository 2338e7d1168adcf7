"""Benches on device memory, with a driver that records and replays what a test library enqueues."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench.compare import CompareOptions, compare
from harness.bench.run import BenchOptions, bench
from harness.bench_results import BenchResults
from harness.compare_results import Standing
from harness.errors import UsageProblem
from harness.results import Outcome

SAMPLES = 30


def run(bench_set: Path, library: str, *kernels: str) -> BenchResults:
    return bench(bench_set, library, BenchOptions(kernels=kernels, samples=SAMPLES))


def test_every_kernel_is_timed_cold_and_warm_by_graph_replay(bench_set: Path, driver, device) -> None:
    results = run(bench_set, device())
    assert [(c.outcome, c.message) for c in results.cases] == [(Outcome.PASS, "")] * results.planned
    assert results.exit_reason == ""
    for case in results.cases:
        cold, warm = case.series
        assert (cold.arrangement.cache, warm.arrangement.cache) == ("cold", "warm")
        assert cold.arrangement.quantity == warm.arrangement.quantity == "graph replay"
        assert 20 <= cold.arrangement.buffers == cold.arrangement.calls <= 100
        assert (warm.arrangement.buffers, warm.arrangement.cold_by) == (1, "")
        assert 20 <= warm.arrangement.calls <= 100
        assert cold.count == warm.count == SAMPLES
        assert cold.min <= cold.median <= cold.p95
        assert case.device_span is None
    assert results.ceilings.bytes_per_second is not None and results.ceilings.flops_per_second is None
    assert any("Device span per kernel: not measured (torch" in note for note in results.notes)
    assert any("not read" in note for note in results.notes)


def test_a_python_target_on_a_device_has_times_of_its_own(
    bench_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody makes its cache cold; it is timed, and compared, as it comes."""
    monkeypatch.chdir(Path(__file__).parent)
    results = run(bench_set, "own_clock:OnDevice", "tree_accept")
    [case] = results.cases
    assert (case.outcome, case.message) == (Outcome.PASS, "")
    assert "Clocks and throttle reasons: not read (the target names no device)." in results.notes
    [series] = case.series
    assert (series.arrangement.cache, series.arrangement.quantity) == ("not controlled", "stream events")
    assert set(series.seconds) == {1e-5}
    options = CompareOptions(kernels=("tree_accept",), samples=12)
    [compared] = compare(bench_set, ("own_clock:OnDevice",) * 2, options).cases
    assert (compared.cache, compared.standing) == ("not controlled", Standing.SAME)


def test_a_graph_replay_and_single_calls_are_not_compared(bench_set: Path, driver, device) -> None:
    driver.chdir(Path(__file__).parent)
    options = CompareOptions(kernels=("tree_accept",), samples=12)
    [compared] = compare(bench_set, (device(), "own_clock:OnDevice"), options).cases
    assert compared.standing is Standing.UNDECIDED
    assert compared.reason.endswith("not measured alike (graph replay, then stream events)")


def test_rotation_exceeds_the_cache_fivefold_or_the_cache_is_flushed(
    bench_set: Path, driver, device, tmp_path: Path
) -> None:
    driver.setenv("FAKE_CUDA_COUNT", str(tmp_path / "count"))
    driver.setenv("FAKE_CUDA_L2", "64")
    rotated = run(bench_set, device(), "tree_accept")
    for case in rotated.cases:
        how = case.series[0].arrangement
        assert how.cold_by == "rotation" and how.distinct_bytes > 5 * how.l2_bytes
    assert "f" not in (tmp_path / "count").read_text()
    driver.setenv("FAKE_CUDA_L2", str(1 << 20))
    flushed = run(bench_set, device(), "tree_accept")
    for case in flushed.cases:
        how = case.series[0].arrangement
        assert how.cold_by == "flush" and how.buffers == how.calls
    lines = (tmp_path / "count").read_text().split()
    assert lines.count("f") >= SAMPLES * flushed.planned


def test_the_composed_step_has_a_stack(bench_set: Path, driver, device) -> None:
    for case in run(bench_set, device(), "greedy_step").cases:
        assert [s.kernel for s in case.stages] == ["tree_build", "verify_attn", "tree_accept", "kv_commit"]
        assert all(s.seconds for s in case.stages)


def test_a_replay_that_leaves_a_buffer_out_is_found_out(bench_set: Path, driver, device) -> None:
    driver.setenv("FAKE_CUDA_SKIP", "1")
    results = run(bench_set, device(), "tree_accept")
    assert {c.outcome for c in results.cases} == {Outcome.WRONG_VALUES}
    assert all(c.message.startswith("before timing: ") and not c.series for c in results.cases)


def test_what_goes_wrong_while_it_is_timed_is_found_out(bench_set: Path, driver, device) -> None:
    results = run(bench_set, device("-DWRONG_FROM=1500"), "tree_accept")
    assert results.cases[0].outcome is Outcome.WRONG_VALUES
    assert results.cases[0].message.startswith("after timing: accept_len")


def test_without_graphs_stream_events_are_named_as_such(bench_set: Path, driver, device) -> None:
    driver.setenv("FAKE_CUDA_NO_GRAPHS", "1")
    [quantity] = {
        s.arrangement.quantity for c in run(bench_set, device(), "kv_commit").cases for s in c.series
    }
    assert quantity == "stream events"


def test_a_crash_ends_its_case_alone(bench_set: Path, driver, device) -> None:
    results = run(bench_set, device("-DDIE"), "tree_accept", "kv_commit")
    outcomes = {c.kernel: c.outcome for c in results.cases}
    assert outcomes == {"tree_accept": Outcome.CRASH, "kv_commit": Outcome.PASS}
    assert results.exit_reason == "1 CRASH"


def test_little_memory_still_gives_a_cold_cache(bench_set: Path, driver, device) -> None:
    driver.setenv("FAKE_CUDA_FREE", str(1 << 11))
    for case in run(bench_set, device(), "tree_accept").cases:
        how = case.series[0].arrangement
        assert 2 <= how.buffers < 20
        assert how.cold_by == "flush" or how.distinct_bytes > 5 * how.l2_bytes


def test_a_device_wants_thirty_samples(bench_set: Path, driver, device) -> None:
    with pytest.raises(UsageProblem, match="--samples is 10"):
        bench(bench_set, device(), BenchOptions(samples=10))
