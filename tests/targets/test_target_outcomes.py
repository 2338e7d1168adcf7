"""Every way to be wrong gives its own outcome, and the other cases finish."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from made import BUDGETS, HIT

from harness import verify as verify_set
from harness.errors import EnvironmentProblem, UsageProblem
from harness.results import Outcome, Results

TREES = len(BUDGETS)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find `bad_targets` as they would find a user's module: from the current folder."""
    monkeypatch.chdir(Path(__file__).parent)


def verify(fixtures: Path, target: str, **options: object) -> Results:
    return verify_set(fixtures, target, **{"jobs": 1, **options})


def spoiled(results: Results) -> str:
    """The message of the one case that is not PASS; its outcome is asserted by the caller."""
    [bad] = [c for c in results.cases if c.outcome is not Outcome.PASS]
    assert bad.case_id.endswith(f"budget{HIT}")
    assert bad.message
    return bad.message


@pytest.mark.parametrize(
    ("target", "outcome", "words"),
    [
        ("NoOp", "WRONG_SHAPE", "node_token: missing"),
        ("NotADict", "WRONG_SHAPE", "returned list"),
        ("Zeros", "WRONG_VALUES", "wrong"),
        ("Constants", "WRONG_VALUES", "expected"),
        ("Shared", "WRONG_VALUES", "expected"),
        ("WrongDtype", "WRONG_SHAPE", "int64"),
        ("WrongShape", "WRONG_SHAPE", "tree_mask"),
        ("InPlace", "INPUT_MUTATED", "topk_token"),
        ("NoTime", "WRONG_SHAPE", "seconds: nan"),
        ("NegativeTime", "WRONG_SHAPE", "seconds: -1.0"),
        ("TextTime", "WRONG_SHAPE", "seconds: 'soon'"),
        ("Sleeps", "TIMEOUT", "within 2 s"),
        ("ClosesOutput", "TIMEOUT", "within 2 s"),
        ("Aborts", "CRASH", "SIGABRT"),
        ("Exits", "CRASH", "ended its process with code 0"),
        ("Raises", "WRONG_VALUES", "RuntimeError: no such luck"),
        ("Refuses", "UNSUPPORTED", "eight is too many"),
    ],
)
def test_python_target(small_set: Path, target: str, outcome: str, words: str) -> None:
    options = {"kernels": ("tree_build", "tree_accept"), "timeout": 2.0}
    results = verify(small_set, f"bad_targets:{target}", **options)
    assert results.totals[outcome] == 1, [c.message for c in results.cases]
    assert results.totals["PASS"] == results.planned - 1
    assert words in spoiled(results)


def test_aborted_worker_shows_its_last_words(small_set: Path) -> None:
    results = verify(small_set, "bad_targets:Aborts", kernels=("tree_build",))
    assert "about to abort" in spoiled(results)


@pytest.mark.parametrize("target", ["Right", "Prints"])
def test_good_python_targets(small_set: Path, target: str) -> None:
    results = verify(small_set, f"bad_targets:{target}", kernels=("tree_build",))
    assert (results.totals["PASS"], results.exit_reason) == (TREES, "")


def test_attention_faults(small_set: Path) -> None:
    nan = verify(small_set, "bad_targets:AllNaN", kernels=("verify_attn",))
    assert nan.totals["WRONG_VALUES"] == nan.planned
    flicker = verify(small_set, "bad_targets:Flickers", kernels=("verify_attn",))
    seen = Counter(c.outcome for c in flicker.cases)
    assert set(seen) <= {Outcome.NONDETERMINISTIC, Outcome.PASS}
    assert seen[Outcome.NONDETERMINISTIC] >= 1


def test_a_copied_input_never_passes(small_set: Path) -> None:
    results = verify(small_set, "bad_targets:CopiesInput")
    assert results.totals["PASS"] == 0


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ("SILENT", "UNWRITTEN", "node_token: "),
        ("PARTIAL", "UNWRITTEN", "tree_status: 1 of 2 never written, first [1]"),
        ("PAST_END", "GUARD_HIT", "node_token: 1 bytes changed from 0 bytes past its end"),
        ("BEFORE", "GUARD_HIT", "node_token: 1 bytes changed up to 1 bytes before its start"),
        ("SPILL", "GUARD_HIT", "workspace: 1 bytes changed from 0 bytes past its end"),
        ("EDIT_INPUT", "INPUT_MUTATED", "topk_logprob"),
        ("NULL_DEREF", "CRASH", "SIGSEGV"),
        ("EXIT", "CRASH", "exited with code 3"),
        ("HANG", "TIMEOUT", "within 2 s"),
        ("INVALID", "WRONG_VALUES", "INVALID_ARGUMENT"),
        ("WRONG", "WRONG_VALUES", "node_parent[1][8]"),
    ],
)
def test_library(small_set: Path, faulty, fault: str, outcome: str, words: str) -> None:
    options = {"kernels": ("tree_build", "tree_accept"), "timeout": 2.0}
    results = verify(small_set, str(faulty(fault)), **options)
    assert results.totals[outcome] == 1, [c.message for c in results.cases]
    assert results.totals["PASS"] == results.planned - 1
    assert words in spoiled(results)
    assert results.exit_reason == f"1 {outcome}"


def test_a_refusal_of_what_is_declared_fails_the_run(small_set: Path, faulty) -> None:
    results = verify(small_set, str(faulty("REFUSE")), kernels=("tree_build",))
    assert results.totals["UNSUPPORTED"] == 1
    assert "declared, but ddtree_tree_build returned UNSUPPORTED" in spoiled(results)
    assert results.exit_reason == "1 UNSUPPORTED although the target declares what they need"


def test_a_declared_limit_is_no_failure(small_set: Path, faulty) -> None:
    results = verify(small_set, str(faulty("SMALL")), kernels=("tree_build",))
    assert (results.totals["PASS"], results.totals["UNSUPPORTED"]) == (1, TREES - 1)
    messages = {c.message for c in results.cases if c.outcome is Outcome.UNSUPPORTED}
    assert "max_N 4 is below the case's N 6" in messages
    assert results.exit_reason == ""


def test_a_missing_symbol_of_a_declared_kernel_fails(small_set: Path, faulty) -> None:
    results = verify(small_set, str(faulty("NO_KERNEL")), kernels=("tree_build", "tree_accept"))
    messages = {c.message for c in results.cases if c.outcome is Outcome.UNSUPPORTED}
    assert messages == {"declared, but the library exports no ddtree_tree_accept"}
    assert "no case of tree_accept passed" in results.exit_reason


def test_an_undeclared_kernel_is_unsupported_and_fails_only_where_selected(small_set: Path, faulty) -> None:
    library = str(faulty("UNDECLARED"))
    assert verify(small_set, library, kernels=("tree_build",)).exit_reason == ""
    everything = verify(small_set, library)
    assert everything.totals["PASS"] == TREES
    assert everything.totals["UNSUPPORTED"] == everything.planned - TREES
    assert "verify_attn" in everything.exit_reason
    required = verify(small_set, library, kernels=("tree_build",), require=("kv_commit",))
    assert "no case of kv_commit passed" in required.exit_reason


def test_composed_step_equals_the_librarys_own(small_set: Path, faulty) -> None:
    results = verify(small_set, str(faulty("NO_STEP")), kernels=("greedy_step",))
    assert (results.totals["PASS"], results.exit_reason) == (results.planned, "")


def test_lse_in_base_2_and_no_lse(small_set: Path, faulty) -> None:
    attention = ("verify_attn", "greedy_step")
    base2 = verify(small_set, str(faulty("BASE2")), kernels=("verify_attn",))
    assert base2.exit_reason == ""
    without = verify(small_set, str(faulty("NO_LSE")), kernels=attention)
    assert without.exit_reason == ""
    assert without.notes == ("lse was not compared: the target does not declare ATTN_LSE",)


def test_nondeterministic_library(small_set: Path, faulty) -> None:
    results = verify(small_set, str(faulty("FLIP")), kernels=("verify_attn",), repeat=3)
    bad = [c for c in results.cases if c.outcome is not Outcome.PASS]
    assert bad
    assert {c.outcome for c in bad} == {Outcome.NONDETERMINISTIC}
    assert "out differ in a bit between 3 runs" in bad[0].message


@pytest.mark.parametrize(
    ("fault", "words"),
    [("OLD_ABI", "ABI version 0"), ("NEXT_MAJOR", "contract 2.x"), ("BELOW_ZERO", "limits .max_N -1")],
)
def test_a_library_that_says_what_cannot_be_is_refused(
    small_set: Path, faulty, fault: str, words: str
) -> None:
    with pytest.raises(EnvironmentProblem, match=words):
        verify(small_set, str(faulty(fault)))


def test_a_target_that_cannot_be_opened(small_set: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no licence"):
        verify(small_set, "bad_targets:CannotStart")
    for target in ("HidesOut", "HidesByText"):
        with pytest.raises(UsageProblem, match="may be absent"):
            verify(small_set, f"bad_targets:{target}")
    with pytest.raises(UsageProblem, match="no such file"):
        verify(small_set, str(tmp_path / "absent.so"))
    with pytest.raises(UsageProblem, match="unknown target"):
        verify(small_set, "nothing")
    with pytest.raises(UsageProblem, match="is a folder"):
        verify(small_set, f"{tmp_path}/")
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(EnvironmentProblem, match="cannot be loaded"):
        verify(small_set, str(text))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_right_targets_pass(small_set: Path, target: str) -> None:
    results = verify(small_set, target)
    assert (results.totals["PASS"], results.exit_reason) == (results.planned, "")


@pytest.mark.parametrize("order", ["forward", "reverse", "random:7"])
def test_thread_orders_of_the_emulator(small_set: Path, order: str) -> None:
    assert verify(small_set, "cpu", order=order).exit_reason == ""


def test_an_order_for_a_target_without_threads(small_set: Path, faulty) -> None:
    for target in ("reference", str(faulty("NONE"))):
        with pytest.raises(UsageProblem, match="has no thread order"):
            verify(small_set, target, order="reverse")
    with pytest.raises(UsageProblem, match="--order is 'sideways'"):
        verify(small_set, "cpu", order="sideways")
