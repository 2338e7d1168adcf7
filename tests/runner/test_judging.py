"""More ways to be wrong that a comparator may let pass: infinities, NaN by run, signed zeros, denormals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import attention_case, tree_case

from harness.judge import judge
from harness.judge.compare import attention_allowance, compare_case
from harness.observation import Observation
from harness.results import Outcome
from references.bf16 import float_to_bf16

CASE = attention_case()
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38)


def right() -> dict[str, np.ndarray]:
    return {"out": float_to_bf16(CASE.expected["out"]), "lse": CASE.expected["lse"].copy()}


@pytest.mark.parametrize("want", SPECIAL)
def test_every_pair_of_special_values(want: float) -> None:
    """One element, every pair: equal, or within a finite allowance, or wrong. A share is always a number."""
    where = (1, 2, 0)
    assert CASE.expected["lse"][where] == -np.inf
    expected = {**CASE.expected, "lse": CASE.expected["lse"].copy()}
    expected["lse"][where] = want
    allowed = float(attention_allowance(expected)["lse"][where])
    reference = float(expected["lse"][where])
    for got in SPECIAL:
        outputs = {**right(), "lse": expected["lse"].copy()}
        outputs["lse"][where] = got
        value = float(outputs["lse"][where])
        near = np.isfinite(reference) and np.isfinite(value) and abs(reference - value) <= allowed
        found = compare_case(replace(CASE, expected=expected), outputs)
        assert found.right == bool(near or reference == value), (want, got, allowed)
        assert found.share is not None and np.isfinite(found.share)


def test_infinities_have_no_relative_error() -> None:
    """An output that is infinite where the reference is finite, and the other way, in either sign."""
    for bits in (0x7F80, 0xFF80):
        outputs = right()
        outputs["out"][...] = bits
        assert not compare_case(CASE, outputs).right
    for value in (np.inf, np.nan, 0.0):
        assert not compare_case(CASE, {**right(), "lse": np.full_like(right()["lse"], value)}).right
    base2 = {**right(), "lse": np.full_like(right()["lse"], -np.inf)}
    assert not compare_case(CASE, base2, lse_base2=True).right


def seen(*rounds: dict[str, np.ndarray]) -> Observation:
    return Observation("done", rounds=rounds, poisoned=False)


def test_nan_in_one_run_only_is_wrong_not_nondeterministic() -> None:
    bad = right()
    bad["out"][0, 0, 0, 0] = 0x7FC0
    for rounds, run in (
        ((bad, right()), ""),
        ((right(), bad), " in run 2 only"),
        ((right(), {}, bad), "run 3"),
    ):
        verdict = judge(CASE, seen(*rounds))
        assert verdict.outcome is Outcome.WRONG_VALUES
        assert run in verdict.message


def test_a_signed_zero_is_right_but_must_not_flicker() -> None:
    dead = (1, 3, 0, 0)
    minus = right()
    minus["out"][dead] = 0x8000
    assert judge(CASE, seen(minus, {})).outcome is Outcome.PASS
    assert judge(CASE, seen(right(), {"out": minus["out"]})).outcome is Outcome.NONDETERMINISTIC


def test_a_denormal_against_zero_is_wrong_in_either_format() -> None:
    for bits in (0x0001, 0x8001, 0x007F):
        outputs = right()
        outputs["out"][1, 3, 0, 0] = bits
        assert judge(CASE, seen(outputs, {})).outcome is Outcome.WRONG_VALUES


def test_a_later_run_of_another_shape_is_wrong() -> None:
    case = tree_case(5)
    good = dict(case.expected)
    for later in (good["node_depth"][:, :-1], good["node_depth"].astype(np.int64), good["node_depth"][:0]):
        assert judge(case, seen(good, {"node_depth": later})).outcome is Outcome.WRONG_SHAPE


def test_no_runs_and_no_outputs_are_never_a_pass() -> None:
    case = tree_case(5)
    assert judge(case, Observation("done")).outcome is Outcome.HARNESS_ERROR
    assert judge(case, seen({}, {})).outcome is Outcome.WRONG_SHAPE
    assert judge(case, Observation("done", rounds=({}, {}), absent=tuple(case.expected))).outcome is (
        Outcome.HARNESS_ERROR
    )
