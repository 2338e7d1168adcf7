"""tree_build families: the contract's preconditions hold, and each family has what it claims."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from built import cases, expected, inputs, parameter
from wrong_builders import (
    Ranks,
    fixed_point,
    float32_sums,
    heap,
    products,
    rank_capped,
    rank_tuples,
    scores,
)

from harness.case import AnyArray, Case

Builder = Callable[[AnyArray, int], list[Ranks]]


def agrees(builder: Builder, case: Case) -> bool:
    """Whether a builder makes the expected tree for every request of a valid case."""
    rows = inputs(case)["topk_logprob"]
    return all(
        builder(rows[b], int(case.scalars["budget"])) == rank_tuples(case, b)
        for b in range(len(rows))
        if inputs(case)["root_token"][b] != -1
    )


def bad(rows: AnyArray) -> AnyArray:
    """bool [B], written apart from the reference: some value is NaN or above 0, or some row rises."""
    flat = rows.astype(np.float64)
    rises = np.array([[any(b > a for a, b in pairwise(row)) for row in one] for one in flat.tolist()])
    return np.isnan(flat).any(axis=(1, 2)) | (flat > 0).any(axis=(1, 2)) | rises.any(axis=1)


def test_preconditions() -> None:
    for case in cases("tree_build"):
        given, out = inputs(case), expected(case)
        nodes = int(case.scalars["budget"]) + 1
        prefix = given["prefix_len"].astype(np.int64)
        assert (prefix >= 0).all() and (prefix + nodes < 2**31).all(), case.case_id
        assert (
            nodes <= 1025 and given["topk_logprob"].shape[1] <= 32 and given["topk_logprob"].shape[2] <= 1024
        )
        live = given["root_token"] != -1
        assert (given["root_token"] >= -1).all() and (given["topk_token"] >= 0).all()
        wrong = bad(given["topk_logprob"]) & live
        assert wrong.any() == (case.validity == "invalid"), case.case_id
        assert (out["tree_status"] == wrong).all(), case.case_id


def test_candidates_of_a_row_have_distinct_tokens_unless_repeated() -> None:
    for case in cases("tree_build"):
        token = np.sort(inputs(case)["topk_token"], axis=-1)
        if "ids_one" not in case.case_id:
            assert (np.diff(token, axis=-1) > 0).all(), case.case_id


def on_grid(case: Case) -> bool:
    rows = inputs(case)["topk_logprob"]
    finite = rows[np.isfinite(rows)].astype(np.float64)
    return bool((finite * 2**20 == np.round(finite * 2**20)).all() and (finite > -16).all())


def test_only_precision_families_leave_the_grid() -> None:
    for case in cases("tree_build"):
        if case.validity == "valid" and "bad_rows" not in case.flags:
            off_grid = bool({"off_grid", "every_magnitude"} & set(case.flags))
            assert on_grid(case) != off_grid, case.case_id


@pytest.mark.parametrize("family", ["grid", "bf16_ties", "all_equal", "tiny", "ragged"])
def test_shortcuts_hold_on_the_grid(family: str) -> None:
    for case in cases("tree_build", family)[::3]:
        assert agrees(rank_capped, case) and agrees(fixed_point, case) and agrees(heap, case), case.case_id
        assert agrees(lambda rows, budget: heap(rows, budget, difference=True), case), case.case_id


def test_full_trees_at_word_edges() -> None:
    sizes = set()
    for case in cases("tree_build", "word_edge"):
        nodes = int(case.scalars["budget"]) + 1
        assert (expected(case)["node_count"] == nodes).all()
        assert min(nodes % 32, -nodes % 32) <= 1
        sizes.add(nodes)
    assert {31, 32, 33, 63, 64, 65, 127, 128, 129, 257, 513, 1025} <= sizes


@pytest.mark.parametrize("family", ["bf16_ties", "all_equal"])
def test_ties_decide(family: str) -> None:
    other = 0
    for case in cases("tree_build", family):
        rows = inputs(case)["topk_logprob"]
        score = [scores(rows[b], rank_tuples(case, b)) for b in range(len(rows))]
        assert any(len(set(s)) < len(s) for s in score), case.case_id
        other += not agrees(lambda rows, budget: heap(rows, budget, tie="push"), case)
    assert other >= len(cases("tree_build", family)) // 2


def test_rounding_breaks_cheap_scores() -> None:
    for case in cases("tree_build", "rounding"):
        assert agrees(heap, case), case.case_id
        assert not agrees(fixed_point, case), case.case_id
        exact = parameter(case, "bits") == "40"
        assert agrees(float32_sums, case) != exact, case.case_id
        assert agrees(rank_capped, case) == exact, case.case_id
        assert ("rank_cap" in case.flags) != exact


def test_running_difference_is_told_from_the_sum() -> None:
    for case in cases("tree_build", "difference"):
        assert agrees(heap, case), case.case_id
        assert not agrees(lambda rows, budget: heap(rows, budget, difference=True), case), case.case_id


def test_off_grid_breaks_fixed_point() -> None:
    assert any(not agrees(fixed_point, case) for case in cases("tree_build", "off_grid"))


def test_tiny_probabilities_underflow() -> None:
    for case in cases("tree_build", "tiny"):
        assert not agrees(products, case), case.case_id
        assert (expected(case)["node_depth"] > 8).sum() >= 6


def test_missing_candidates() -> None:
    short = 0
    for case in cases("tree_build", "no_candidate"):
        rows, out = inputs(case)["topk_logprob"][0], expected(case)
        count, nodes = int(out["node_count"][0]), int(case.scalars["budget"]) + 1
        assert np.isneginf(rows).any(axis=-1).any() or parameter(case, "cut") == "tails"
        short += count < nodes
        cut = parameter(case, "cut")
        assert (count == 1) == (cut == "first_level"), case.case_id
        if cut == "level":
            empty = int(np.flatnonzero(np.isneginf(rows).all(axis=-1))[0])
            assert empty >= 1 and out["node_depth"].max() <= empty
        if cut == "single":
            assert (out["node_parent"][0, :count] == np.arange(count) - 1).all() and "chain" in case.flags
    assert short >= 30


def test_shapes() -> None:
    for case in cases("tree_build", "shapes"):
        out, nodes = expected(case), int(case.scalars["budget"]) + 1
        depth, count = out["node_depth"][0], int(out["node_count"][0])
        assert ("short_tree" in case.flags) == (count < nodes), case.case_id
        assert ("root_only" in case.flags) == (count == 1), case.case_id
        if "star" in case.flags:
            assert (depth[1:count] == 1).all()
        if "chain" in case.flags:
            assert (depth[:count] == np.arange(count)).all()


def test_tokens_and_positions() -> None:
    for case in cases("tree_build", "tokens"):
        out = expected(case)["node_token"]
        if parameter(case, "ids") == "repeated":
            assert any(len(set(row[row >= 0].tolist())) < (row >= 0).sum() for row in out)
        if parameter(case, "ids") == "huge":
            assert out.max() == 2**31 - 1
    largest = [
        int(expected(c)["position"].max()) for c in cases("tree_build", "prefix") if "huge_prefix" in c.flags
    ]
    assert min(largest) >= 2**31 - 64


def test_ragged_batches_differ() -> None:
    for case in cases("tree_build", "ragged"):
        count = expected(case)["node_count"]
        assert count[0] > count[-1] >= 2, case.case_id


def test_inactive_requests_win_over_bad_rows() -> None:
    for case in cases("tree_build", "inactive"):
        given, out = inputs(case), expected(case)
        asleep = given["root_token"] == -1
        assert asleep.any() and ((out["node_count"] == 0) == asleep).all()
        assert asleep.all() == ("empty" in case.flags)
        assert (out["tree_status"] == 0).all()
        assert ("bad_rows" in case.flags) == bool(bad(given["topk_logprob"]).any())


def test_bad_rows_hit_one_request() -> None:
    for case in cases("tree_build", "invalid"):
        out = expected(case)
        place = {"first": 0, "middle": 1, "last": 2}[parameter(case, "at")]
        assert out["tree_status"].tolist() == [int(b == place) for b in range(3)]
        assert out["node_count"].tolist() == [1 if b == place else 10 for b in range(3)]
