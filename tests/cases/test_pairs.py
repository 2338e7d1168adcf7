"""Every feasible pair of parameters is in the full suite, and every number of splits."""

from __future__ import annotations

from itertools import combinations, product

from harness.cases.base import Params
from harness.cases.blocks.covering import covering
from harness.cases.verify_attn.pairs import AXES, CEILING, PAIRS, SPLIT_TILES, SPLITS, device_bytes, pairs


def held(cases: list[Params]) -> set[frozenset[tuple[str, int | str]]]:
    return {frozenset(pair) for params in cases for pair in combinations(params.items(), 2)}


def test_every_pair_that_a_case_within_the_ceiling_has_is_covered() -> None:
    every = [dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())]
    feasible = held([params for params in every if device_bytes(params) <= CEILING])
    assert held(list(pairs())) == feasible
    assert len(pairs()) < 80
    assert all(device_bytes(params) <= CEILING for params in pairs())


def test_only_a_batch_of_eight_times_the_longest_prefix_is_infeasible() -> None:
    every = held([dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())])
    assert every - held(list(pairs())) == {frozenset({("B", 8), ("P", 131072)})}


def test_only_the_full_suite_has_them() -> None:
    for family in (PAIRS, SPLITS):
        assert not list(family.plan("smoke")) and not list(family.plan("standard"))
        assert list(family.plan("full"))


def test_a_pair_that_no_case_may_hold_is_left_out() -> None:
    chosen = covering({"a": (1, 2), "b": (1, 2), "c": (1, 2)}, lambda p: float(p["a"] == p["b"] == 2), 0.5)
    assert held(chosen) == held([dict(a=a, b=b, c=c) for a, b, c in product((1, 2), repeat=3) if a * b < 4])


def test_every_number_of_splits_of_132_multiprocessors_occurs() -> None:
    rows = [int(params["H"]) * int(params["N"]) for params in SPLITS.plan("full")]
    tiles = [-(-row // 64) for row in rows]
    assert tiles == list(SPLIT_TILES)
    assert {132 // t for t in tiles} - {0} == {132 // t for t in range(1, 133)}
