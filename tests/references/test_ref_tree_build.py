"""tree_build against enumeration, against a level-by-level search, and its properties."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ref_oracles import by_enumeration, by_levels, distinct_tokens, make_rows, tree_from_ranks

from references import tree_build, unpack_mask

KINDS = ("smooth", "ties", "peaked", "holes")


def build(lp, tokens=None, root=None, prefix=None, budget=8):
    batch, depths, width = lp.shape
    if tokens is None:
        tokens = np.broadcast_to(np.arange(depths * width, dtype=np.int32).reshape(depths, width), lp.shape)
    return tree_build(
        topk_logprob=lp,
        topk_token=np.ascontiguousarray(tokens),
        root_token=np.full(batch, 7, np.int32) if root is None else np.asarray(root, np.int32),
        prefix_len=np.arange(batch, dtype=np.int32) * 3 if prefix is None else np.asarray(prefix, np.int32),
        budget=budget,
    )


def rows(*values):
    return np.array([values], np.float32)


def same(got, want, request=0):
    for name, value in want.items():
        np.testing.assert_array_equal(got[name][request], value, err_msg=name)
        assert got[name].dtype == value.dtype, name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depths, width", [(1, 1), (1, 6), (4, 1), (2, 5), (3, 4), (4, 3), (6, 2)])
def test_matches_enumeration(kind, depths, width):
    rng = np.random.default_rng(depths * 100 + width)
    lp, tokens = make_rows(rng, (12, depths, width), kind), distinct_tokens(rng, (12, depths, width))
    for budget in (0, 1, 2, 7, 31, 32, 500):
        got = build(lp, tokens, budget=budget)
        for b in range(12):
            ranks = by_enumeration(lp[b], budget)
            same(got, tree_from_ranks(ranks, tokens[b], 7, 3 * b, budget), b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depths, width, budget", [(15, 64, 64), (32, 8, 63), (7, 3, 255), (2, 40, 1024)])
def test_matches_level_search(kind, depths, width, budget):
    rng = np.random.default_rng(budget)
    lp, tokens = make_rows(rng, (2, depths, width), kind), distinct_tokens(rng, (2, depths, width))
    got = build(lp, tokens, budget=budget)
    for b in range(2):
        ranks = by_levels(lp[b], budget)
        same(got, tree_from_ranks(ranks, tokens[b], 7, 3 * b, budget), b)


def test_levels_and_enumeration_agree():
    rng = np.random.default_rng(5)
    for kind in KINDS:
        for lp in make_rows(rng, (10, 4, 3), kind):
            assert by_levels(lp, 40) == by_enumeration(lp, 40)


draws = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 8), st.integers(1, 9), st.sampled_from(KINDS)
)


@settings(max_examples=60, deadline=None)
@given(draws, st.integers(0, 70), st.integers(0, 70))
def test_first_nodes_are_the_smaller_tree(draw, small, large):
    seed, batch, depths, width, kind = draw
    small, large = sorted((small, large))
    lp = make_rows(np.random.default_rng(seed), (batch, depths, width), kind)
    a, b = build(lp, budget=small), build(lp, budget=large)
    nodes = small + 1
    for name in ("node_token", "node_parent", "node_depth", "position"):
        np.testing.assert_array_equal(a[name], b[name][:, :nodes])
    np.testing.assert_array_equal(
        unpack_mask(a["tree_mask"], nodes), unpack_mask(b["tree_mask"], nodes)[:, :nodes]
    )
    for name in ("next_token", "next_sibling"):
        cut = b[name][:, :nodes]
        np.testing.assert_array_equal(a[name], np.where(cut >= nodes, -1, cut))
    np.testing.assert_array_equal(a["node_count"], np.minimum(b["node_count"], nodes))


@settings(max_examples=60, deadline=None)
@given(draws, st.integers(0, 70))
def test_structure(draw, budget):
    """Masks are ancestor-closed; links, parents, depths and positions tell the same tree."""
    seed, batch, depths, width, kind = draw
    got = build(make_rows(np.random.default_rng(seed), (batch, depths, width), kind), budget=budget)
    for b in range(batch):
        count = int(got["node_count"][b])
        assert 1 <= count <= budget + 1
        parent = got["node_parent"][b]
        mask = unpack_mask(got["tree_mask"][b], 32 * got["tree_mask"].shape[2])
        assert not mask[count:].any() and not mask[:, count:].any()
        assert parent[0] == -1
        for i in range(1, count):
            assert 0 <= parent[i] < i
            np.testing.assert_array_equal(mask[i], mask[parent[i]] | (np.arange(mask.shape[1]) == i))
            assert got["node_depth"][b, i] == got["node_depth"][b, parent[i]] + 1
        assert (got["node_depth"][b, :count] == mask[:count].sum(axis=1) - 1).all()
        assert (got["position"][b, :count] == 3 * b + got["node_depth"][b, :count]).all()
        for i in range(count):
            child, chained = got["next_token"][b, i], []
            while child != -1:
                chained.append(child)
                child = got["next_sibling"][b, child]
            np.testing.assert_array_equal(chained, np.flatnonzero(parent[:count] == i))
        for name in ("node_token", "node_parent", "node_depth", "position", "next_token", "next_sibling"):
            assert (got[name][b, count:] == -1).all()


@settings(max_examples=30, deadline=None)
@given(draws, st.integers(0, 40), st.randoms(use_true_random=False))
def test_requests_are_independent(draw, budget, random):
    seed, _, depths, width, kind = draw
    rng = np.random.default_rng(seed)
    lp, tokens = make_rows(rng, (5, depths, width), kind), distinct_tokens(rng, (5, depths, width))
    lp[1, 0, 0] = np.nan
    root, prefix = np.array([4, 5, -1, 6, 7]), np.array([0, 9, 3, 100, 2])
    order = np.array(random.sample(range(5), 5))
    whole = build(lp, tokens, root, prefix, budget)
    moved = build(lp[order], tokens[order], root[order], prefix[order], budget)
    alone = [build(lp[[b]], tokens[[b]], root[[b]], prefix[[b]], budget) for b in range(5)]
    for name, value in whole.items():
        np.testing.assert_array_equal(moved[name], value[order])
        np.testing.assert_array_equal(np.concatenate([a[name] for a in alone]), value)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 32), st.integers(0, 40))
def test_width_one_is_a_chain(seed, depths, budget):
    lp = make_rows(np.random.default_rng(seed), (1, depths, 1), "peaked")
    got = build(lp, budget=budget)
    count = min(depths, budget) + 1
    assert got["node_count"][0] == count
    np.testing.assert_array_equal(got["node_parent"][0, :count], np.arange(-1, count - 1))
    np.testing.assert_array_equal(got["next_token"][0, : count - 1], np.arange(1, count))
    assert (got["next_sibling"] == -1).all()
    np.testing.assert_array_equal(
        unpack_mask(got["tree_mask"][0], budget + 1)[:count, :count], np.tri(count, dtype=bool)
    )


def test_budget_zero_is_the_root():
    got = build(rows([-1, -2], [-1, -2]), budget=0)
    assert {k: v.ravel().tolist() for k, v in got.items()} == {
        "node_token": [7], "node_parent": [-1], "node_depth": [0], "position": [0], "next_token": [-1],
        "next_sibling": [-1], "tree_mask": [1], "node_count": [1], "tree_status": [0],
    }  # fmt: skip


def test_ties_go_to_the_smaller_rank_tuple():
    got = build(np.zeros((1, 3, 2), np.float32), budget=14)
    assert got["node_depth"][0].tolist() == [0, 1, 2, 3, 3, 2, 3, 3, 1, 2, 3, 3, 2, 3, 3]  # depth first
    got = build(rows([-1, -2], [-1, -1]), budget=4)  # (1) ties with (0,0) and (0,1) at -2
    assert got["node_parent"][0].tolist() == [-1, 0, 1, 1, 0]


def test_negative_zero_equals_zero():
    plain, signed = np.zeros((1, 2, 3), np.float32), np.zeros((1, 2, 3), np.float32)
    signed[0, 0] = [-0.0, 0.0, -0.0]
    signed[0, 1] = [0.0, -0.0, 0.0]
    for name, value in build(plain, budget=12).items():
        np.testing.assert_array_equal(build(signed, budget=12)[name], value)


def test_sums_are_left_to_right_float64():
    """-1 then 2^-53 twice: each small term alone is absorbed, their sum would not be."""
    tiny = -(2.0**-53)
    lp = rows([-1.0, -1.0 - 2.0**-23], [tiny, tiny], [tiny, tiny])
    got = build(lp, budget=6)
    assert got["node_depth"][0].tolist() == [0, 1, 2, 3, 3, 2, 3]  # all equal -1.0: ranks decide


def test_no_running_difference():
    """(0,1) costs p + 2 rounded once, just over 2; from its sibling, p + 1 - 1 + 2, it would tie with (1)."""
    p = 2.0**-52 * (1 + 2.0**-10)
    got = build(rows([-p, -2.0], [-1.0, -2.0]), budget=4)
    assert got["node_parent"][0].tolist() == [-1, 0, 1, 0, 1]


def test_minus_infinity_ends_a_row():
    none = -np.inf
    got = build(rows([-1, -2, none], [-1, none, none], [none, none, none]), budget=20)
    assert got["node_count"][0] == 5  # (0) (0,0) (1) (1,0), nothing at depth 3
    assert got["node_parent"][0, :5].tolist() == [-1, 0, 1, 0, 3]
    assert got["tree_status"][0] == 0
    assert build(rows([none, none], [-1, -1]), budget=3)["node_count"][0] == 1


@pytest.mark.parametrize(
    "bad",
    [
        [[-1, np.nan], [-1, -2]],
        [[-1, -2], [-1, np.nan]],
        [[np.nan, np.nan], [-1, -2]],
        [[1e-30, -2], [-1, -2]],
        [[-1, -2], [np.inf, -2]],
        [[-2, -1], [-1, -2]],
        [[-1, -2], [-np.inf, -5]],
        [[-1, -2], [-3, -2.9999998]],
    ],
)
def test_bad_rows_give_the_root_alone(bad):
    good = [[-1, -2], [-1, -2]]
    lp = np.array([good, bad, good, bad], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = build(lp, root=[7, 8, 9, -1], budget=3)
    assert got["tree_status"].tolist() == [0, 1, 0, 0]  # inactive wins
    assert got["node_count"].tolist() == [4, 1, 4, 0]
    assert got["node_token"][1].tolist() == [8, -1, -1, -1]
    assert got["position"][1].tolist() == [3, -1, -1, -1]
    assert got["tree_mask"][1].ravel().tolist() == [1, 0, 0, 0]
    alone = build(lp[:1], root=[7], budget=3)
    for name, value in alone.items():
        np.testing.assert_array_equal(got[name][0], value[0])
    np.testing.assert_array_equal(got["node_parent"][2], got["node_parent"][0])


def test_bad_value_past_the_ranks_that_budget_reaches_still_counts():
    assert build(rows([-1, -2, -3, np.nan]), budget=1)["tree_status"][0] == 1


def test_inactive_request():
    got = build(np.full((1, 2, 2), -1, np.float32), root=[-1], prefix=[5], budget=3)
    assert got["node_count"][0] == 0 and got["tree_status"][0] == 0
    assert not got["tree_mask"].any()
    for name in ("node_token", "node_parent", "node_depth", "position", "next_token", "next_sibling"):
        assert (got[name] == -1).all()


def test_largest_shape():
    lp = make_rows(np.random.default_rng(3), (1, 32, 1024), "smooth")
    got = build(lp, prefix=[2**31 - 1 - 1025], budget=1024)
    assert got["tree_mask"].shape == (1, 1025, 33)
    same(
        got,
        tree_from_ranks(
            by_levels(lp[0], 1024), np.arange(32 * 1024).reshape(32, 1024), 7, 2**31 - 1026, 1024
        ),
    )


def test_documented_example():
    text = (Path(__file__).parents[2] / "docs" / "references.md").read_text(encoding="utf-8")
    exec(text.split("```python\n")[1].split("```")[0], {})


def test_inputs_are_not_changed():
    lp = make_rows(np.random.default_rng(4), (2, 3, 4), "holes")
    before = lp.copy()
    build(lp)
    np.testing.assert_array_equal(lp, before)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"topk_logprob": np.zeros((2, 3, 4))}, r"topk_logprob: got float64\[2, 3, 4\], want float32\[B, L"),
        ({"topk_token": np.zeros((2, 3, 5), np.int32)}, r"topk_token: got .*3, 5\], want .* K=4\]"),
        ({"root_token": np.zeros(3, np.int32)}, r"root_token: got int32\[3\], want int32\[B=2\]"),
        ({"prefix_len": [0, 0]}, "prefix_len: got list, want a NumPy array"),
        ({"budget": -1}, r"budget: got -1, want 0\.\."),
        ({"budget": 2.0}, "budget: got 2.0, want a whole number"),
    ],
)  # fmt: skip
def test_wrong_arguments(change, message):
    arguments = {
        "topk_logprob": np.zeros((2, 3, 4), np.float32),
        "topk_token": np.zeros((2, 3, 4), np.int32),
        "root_token": np.zeros(2, np.int32),
        "prefix_len": np.zeros(2, np.int32),
        "budget": 4,
    }
    with pytest.raises(ValueError, match=message):
        tree_build(**(arguments | change))


def test_no_candidates_axis():
    with pytest.raises(ValueError, match="want L >= 1 and K >= 1"):
        build(np.zeros((1, 0, 4), np.float32), np.zeros((1, 0, 4), np.int32))
