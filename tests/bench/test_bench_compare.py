"""Comparisons: two live targets in turn, confirmation, what cannot be compared, a stored baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.bench import duel as duel_module
from harness.bench.child import Ended
from harness.bench.compare import CompareOptions, compare
from harness.bench.run import BenchOptions, bench
from harness.bench.verdict import differences
from harness.compare_results import Standing
from harness.errors import UsageProblem
from harness.observation import Observation
from harness.results import Outcome

ACCEPT = CompareOptions(kernels=("tree_accept",), samples=12, min_effect=0.05)


def test_a_slower_library_is_slower_and_confirmed(bench_set: Path, driver, device) -> None:
    results = compare(bench_set, (device(), device("-DSPIN=500000")), ACCEPT)
    assert [(c.cache, c.standing, c.confirmed) for c in results.cases] == [
        ("cold", Standing.SLOWER, True),
        ("warm", Standing.SLOWER, True),
    ]
    for case in results.cases:
        assert case.ratio is not None and case.ratio > 1.5
        assert len(case.first) == len(case.second) >= 12
        assert case.differences == ()
        assert case.arrangement is not None and case.arrangement.quantity == "graph replay"


def test_the_other_way_round_it_is_faster(bench_set: Path, driver, device) -> None:
    results = compare(bench_set, (device("-DSPIN=500000"), device()), ACCEPT)
    assert {c.standing for c in results.cases} == {Standing.FASTER}


def test_a_target_that_is_wrong_or_dies_is_named(bench_set: Path, driver, device) -> None:
    [wrong] = compare(bench_set, (device(), device("-DWRONG_FROM=1")), ACCEPT).cases
    assert (wrong.standing, wrong.outcome, wrong.culprit) == (Standing.NO_TIMES, Outcome.WRONG_VALUES, "B")
    [dead] = compare(bench_set, (device("-DDIE"), device()), ACCEPT).cases
    assert (dead.standing, dead.outcome, dead.culprit) == (Standing.NO_TIMES, Outcome.CRASH, "A")


def test_slower_once_is_undecided(monkeypatch: pytest.MonkeyPatch, bench_set: Path) -> None:
    """The first set of samples says SLOWER, the rerun does not."""
    runs = iter([2.0, 1.0])
    real = duel_module._samples

    def drawn(case, cache, sides, samples):
        found = real(case, cache, sides, samples)
        factor = next(runs)
        first = tuple(1e-3 + 1e-7 * i for i in range(20))
        return replace(found, first=first, second=tuple(factor * s for s in first))

    monkeypatch.setattr(duel_module, "_samples", drawn)
    [case] = compare(bench_set, ("reference", "reference"), ACCEPT).cases
    assert (case.standing, case.confirmed) == (Standing.UNDECIDED, False)
    assert "a second run said" in case.reason


def test_a_stored_baseline_is_indicative(bench_set: Path, driver, device, tmp_path: Path) -> None:
    stored = bench(bench_set, device(), BenchOptions(kernels=("tree_accept",), samples=30))
    path = tmp_path / "bench.json"
    path.write_text(stored.to_json())
    results = compare(bench_set, (device("-DSPIN=500000"),), replace(ACCEPT, baseline=path))
    assert results.indicative and results.notes[0].startswith("Indicative only")
    assert {c.standing for c in results.cases} == {Standing.SLOWER}
    assert all(c.reason.startswith("indicative: ") and not c.confirmed for c in results.cases)
    foreign = replace(stored, environment=replace(stored.environment, facts={"device": "Another GPU"}))
    path.write_text(foreign.to_json())
    results = compare(bench_set, (device("-DSPIN=500000"),), replace(ACCEPT, baseline=path))
    assert {c.standing for c in results.cases} == {Standing.UNDECIDED}
    assert results.cases[0].reason.endswith("the baseline was taken on Another GPU")


def test_the_number_of_targets_is_checked(bench_set: Path) -> None:
    with pytest.raises(UsageProblem, match="1 targets given"):
        compare(bench_set, ("reference",), ACCEPT)


def test_outputs_are_compared_element_by_element() -> None:
    one, other = np.full((1, 2, 1, 4), 0x3F80, np.uint16), np.full((1, 2, 1, 4), 0x3F80, np.uint16)
    other[0, 1, 0, 2] = 0x4000  # 2.0 for 1.0
    lse = np.zeros((1, 2, 1), np.float32)
    seen = [Observation("done", rounds=({"out": out, "lse": lse},)) for out in (one, other)]
    [found] = differences("verify_attn", *seen)
    assert (found.array, found.differing, found.total, found.largest) == ("out", 1, 8, 1.0)
    assert found.first == (0, 1, 0, 2)
    assert differences("verify_attn", seen[0], seen[0]) == ()


def test_an_end_says_what_it_was() -> None:
    assert str(Ended(Outcome.CRASH, "killed by SIGSEGV", True)) == "CRASH: killed by SIGSEGV"
