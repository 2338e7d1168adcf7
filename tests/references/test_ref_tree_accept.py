"""tree_accept against a walk of child lists, the stop and limit rules, and malformed links."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ref_oracles import accept_by_children, distinct_tokens, make_rows

from references import tree_accept, tree_build

NO_LIMIT = 2**31 - 1


def i32(*values):
    return np.array(values, np.int32)


def accept(token, child, sibling, predict, count, stops=(), limit=NO_LIMIT, depth_limit=4):
    """One request, all given as lists."""
    got = tree_accept(
        node_token=i32(token),
        next_token=i32(child),
        next_sibling=i32(sibling),
        target_predict=i32(predict),
        node_count=i32(count),
        stop_token=i32(*stops),
        token_limit=i32(limit),
        depth_limit=depth_limit,
    )
    return {name: value[0].tolist() for name, value in got.items()}


def random_tree(rng, nodes, tokens):
    """Parents before children, siblings in any order that rises: links as lists, and the child lists."""
    children: dict[int, list[int]] = {}
    for node in range(1, nodes):
        children.setdefault(int(rng.integers(0, node)), []).append(node)
    child, sibling = [-1] * nodes, [-1] * nodes
    for parent, ordered in children.items():
        child[parent] = ordered[0]
        for a, b in itertools.pairwise(ordered):
            sibling[a] = b
    token = rng.integers(-1, tokens, nodes).tolist()
    predict = rng.integers(-1, tokens, nodes).tolist()
    for parent, ordered in children.items():
        if rng.random() < 0.7:
            predict[parent] = token[int(rng.choice(ordered))]
    return children, token, child, sibling, predict


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6), st.integers(0, 9),
    st.sampled_from([0, 1, 2, 3, 4, 5, 6, NO_LIMIT]), st.lists(st.integers(-1, 5), max_size=3),
)  # fmt: skip
def test_matches_child_lists(seed, nodes, tokens, depth_limit, limit, stops):
    children, token, child, sibling, predict = random_tree(np.random.default_rng(seed), nodes, tokens)
    pad = [3] * 2  # slots past node_count hold anything
    got = accept(
        token + pad, child + pad, sibling + pad, predict + pad, nodes, stops, limit, depth_limit
    )  # fmt: skip
    assert got == accept_by_children(children, token, predict, stops, limit, depth_limit)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 5), st.integers(0, 40))
def test_tree_never_accepts_less_than_its_chain(seed, depths, width, budget):
    rng = np.random.default_rng(seed)
    lp, tokens = make_rows(rng, (1, depths, width), "smooth"), distinct_tokens(rng, (1, depths, width))
    tree = tree_build(
        topk_logprob=lp, topk_token=tokens, root_token=i32(1), prefix_len=i32(0), budget=budget
    )  # fmt: skip
    count = int(tree["node_count"][0])
    predict = rng.integers(0, width + 7, count).tolist()
    for i in range(count):
        if tree["next_token"][0, i] != -1 and rng.random() < 0.6:
            predict[i] = int(tree["node_token"][0, tree["next_token"][0, i]])
    chain, at = 0, 0
    while tree["next_token"][0, at] != -1 and tree["node_token"][0, tree["next_token"][0, at]] == predict[at]:
        chain, at = chain + 1, tree["next_token"][0, at]
    links = [tree[n][0, :count].tolist() for n in ("node_token", "next_token", "next_sibling")]
    got = accept(*links, predict, count, depth_limit=depths)
    assert got["accept_len"] >= chain
    path = got["accept_index"][: got["accept_len"] + 1]
    for parent, node in itertools.pairwise(path):
        assert tree["node_parent"][0, node] == parent
        assert tree["node_token"][0, node] == predict[parent]
    assert got["out_token"][: len(path)] == [predict[i] for i in path]


CHAIN = {
    "token": [9, 5, 6, 7],
    "child": [1, 2, 3, -1],
    "sibling": [-1] * 4,
    "predict": [5, 6, 7, 8],
    "count": 4,
}


@pytest.mark.parametrize(
    "limit, stops, depth_limit, index, tokens, bonus, finished",
    [
        (NO_LIMIT, [], 4, [0, 1, 2, 3], [5, 6, 7, 8], 8, 0),
        (5, [], 4, [0, 1, 2, 3], [5, 6, 7, 8], 8, 0),
        (4, [], 4, [0, 1, 2, 3], [5, 6, 7, 8], 8, 1),
        (3, [], 4, [0, 1, 2, 3], [5, 6, 7], -1, 1),
        (2, [], 4, [0, 1, 2], [5, 6], -1, 1),
        (1, [], 4, [0, 1], [5], -1, 1),
        (0, [], 4, [0], [], -1, 1),
        (NO_LIMIT, [5], 4, [0, 1], [5], -1, 1),
        (NO_LIMIT, [6], 4, [0, 1, 2], [5, 6], -1, 1),
        (NO_LIMIT, [7, 6], 4, [0, 1, 2], [5, 6], -1, 1),
        (NO_LIMIT, [7], 4, [0, 1, 2, 3], [5, 6, 7], -1, 1),
        (NO_LIMIT, [8], 4, [0, 1, 2, 3], [5, 6, 7, 8], 8, 1),
        (NO_LIMIT, [9, -1], 4, [0, 1, 2, 3], [5, 6, 7, 8], 8, 0),  # the root is not emitted; -1 never
        (2, [6], 4, [0, 1, 2], [5, 6], -1, 1),
        (0, [5], 4, [0], [], -1, 1),
        (NO_LIMIT, [], 3, [0, 1, 2, 3], [5, 6, 7, 8], 8, 0),
        (NO_LIMIT, [], 2, [0, 1, 2], [5, 6, 7], 7, 0),  # the tree is deeper: the bonus is a draft's token
        (NO_LIMIT, [], 0, [0], [5], 5, 0),
        (3, [], 2, [0, 1, 2], [5, 6, 7], 7, 1),
        (2, [], 2, [0, 1, 2], [5, 6], -1, 1),
    ],
)
def test_stop_and_limit(limit, stops, depth_limit, index, tokens, bonus, finished):
    pad = [-1] * 5
    assert accept(*CHAIN.values(), stops, limit, depth_limit) == {
        "accept_index": (index + pad)[: depth_limit + 1],
        "accept_len": len(index) - 1,
        "bonus_token": bonus,
        "out_token": (tokens + pad)[: depth_limit + 1],
        "finished": finished,
        "accept_status": 0,
    }


def test_no_bonus_takes_no_limit():
    chain = CHAIN | {"predict": [5, 6, 7, -1]}
    for limit, finished in ((3, 1), (4, 0), (NO_LIMIT, 0)):
        got = accept(*chain.values(), (), limit)
        assert (got["accept_len"], got["bonus_token"], got["finished"]) == (3, -1, finished)
        assert got["out_token"] == [5, 6, 7, -1, -1]
    assert accept([9], [-1], [-1], [-1], 1)["out_token"] == [-1] * 5


def test_first_matching_sibling_wins_and_minus_one_never_matches():
    got = accept([9, 4, 5, 5], [1, -1, -1, -1], [-1, 2, 3, -1], [5, 0, 1, 2], 4)
    assert got["accept_index"] == [0, 2, -1, -1, -1] and got["bonus_token"] == 1
    got = accept([9, -1], [1, -1], [-1, -1], [-1, 3], 2)
    assert got["accept_len"] == 0 and got["bonus_token"] == -1


BAD = {"accept_index": [0, -1, -1, -1, -1], "accept_len": 0, "bonus_token": -1, "out_token": [-1] * 5,
       "finished": 0, "accept_status": 1}  # fmt: skip


@pytest.mark.parametrize(
    "child, sibling, count",
    [
        ([1, 2, 3, 3], [-1] * 4, 4),  # to itself and from another
        ([1, 2, -1, 3], [-1] * 4, 4),  # to itself alone
        ([0, -1, -1, -1], [-1] * 4, 4),
        ([-1, -1, -1, -1], [-1, 1, -1, -1], 4),
        ([1, 2, 3, 0], [-1] * 4, 4),  # to the root
        ([1, 2, 3, 2], [-1] * 4, 4),  # backwards
        ([1, 2, 3, 4], [-1] * 4, 4),  # past the slots
        ([1, 2, 3, -1], [-1] * 4, 3),  # past node_count
        ([1, 2, 3, -2], [-1] * 4, 4),
        ([1, 2, 3, 2**31 - 1], [-1] * 4, 4),
        ([1, 2, 3, -(2**31)], [-1] * 4, 4),
        ([1, 2, 3, -1], [-1, -1, 2, -1], 4),  # sibling to itself
        ([1, 2, 3, -1], [-1, 0, -1, -1], 4),
        ([1, 2, 3, -1], [-1, 5, -1, -1], 4),
        ([1, 3, 3, -1], [-1] * 4, 4),  # two parents
        ([1, 2, -1, -1], [-1, 2, 3, -1], 4),  # child and sibling
        ([1, -1, -1, -1], [-1, 3, 3, -1], 4),  # two siblings
        ([1, 2, 3, -1], [2, -1, -1, -1], 4),  # the root's sibling is another's child
        ([1, 2, 3, -1], [-1] * 4, 5),
        ([1, 2, 3, -1], [-1] * 4, -1),
        ([1, 2, 3, -1], [-1] * 4, -(2**31)),
    ],
)
@pytest.mark.parametrize("limit", [0, 1, NO_LIMIT])
def test_malformed(child, sibling, count, limit):
    assert accept([9, 5, 6, 7], child, sibling, [5, 6, 7, 8], count, [5], limit) == BAD


def test_unreached_links_and_padding():
    """A bad link that the walk would never meet still counts; links at or past node_count do not."""
    assert accept([9, 5, 6], [1, -1, 1], [-1, -1, -1], [0, 0, 0], 3)["accept_status"] == 1
    good = accept([9, 5, 6], [1, -1, 1], [-1, -1, 0], [0, 0, 0], 2)
    assert good["accept_status"] == 0 and good["bonus_token"] == 0
    assert accept([9, 5, 6], [-1, -1, 2**31 - 1], [2, -1, -7], [0, 0, 0], 1)["accept_status"] == 1
    forest = accept([9, 5, 6], [-1, -1, -1], [-1, -1, -1], [5, 0, 0], 3)  # nodes that nothing names
    assert forest["accept_status"] == 0 and forest["bonus_token"] == 5


def test_requests_do_not_disturb_each_other():
    rng = np.random.default_rng(2)
    trees = [random_tree(rng, 12, 4)[1:] for _ in range(6)]
    arrays = [i32(*[t[k] for t in trees]) for k in range(4)]
    arrays[1][1, 3] = 3
    counts, limits = i32(12, 12, 0, 13, 12, 7), i32(NO_LIMIT, 3, -5, 2, 1, 4)
    arrays[1][5, :7][arrays[1][5, :7] >= 7] = -1
    arrays[2][5, :7][arrays[2][5, :7] >= 7] = -1
    names = ("node_token", "next_token", "next_sibling", "target_predict")
    got = tree_accept(
        **dict(zip(names, arrays, strict=True)), node_count=counts, stop_token=i32(2), token_limit=limits,
        depth_limit=4,
    )  # fmt: skip
    assert got["accept_status"].tolist() == [0, 1, 0, 1, 0, 0]
    for b in range(6):
        alone = accept(*[a[b].tolist() for a in arrays], int(counts[b]), [2], int(limits[b]))
        assert {k: v[b].tolist() for k, v in got.items()} == alone
    inactive = {k: v[2].tolist() for k, v in got.items()}
    assert inactive == {"accept_index": [-1] * 5, "accept_len": -1, "bonus_token": -1, "out_token": [-1] * 5,
                        "finished": 0, "accept_status": 0}  # fmt: skip


def test_large_chain():
    n = 1025
    got = accept(
        [0, *range(1, n)], [*range(1, n), -1], [-1] * n, [*range(1, n), 5000], n, depth_limit=32
    )  # fmt: skip
    assert got["accept_len"] == 32 and got["bonus_token"] == 33


@pytest.mark.parametrize(
    "change, message",
    [
        ({"node_token": np.zeros((1, 2), np.int64)}, r"node_token: got int64\[1, 2\], want int32\[B, N\]"),
        (
            {"next_sibling": np.zeros((1, 3), np.int32)},
            r"next_sibling: got int32\[1, 3\], want int32\[B=1, N=2\]",
        ),
        ({"stop_token": np.zeros((1, 1), np.int32)}, r"stop_token: got int32\[1, 1\], want int32\[T\]"),
        ({"token_limit": i32(-1)}, r"token_limit\[0\]: got -1, want 0"),
        ({"depth_limit": -1}, "depth_limit: got -1"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {name: np.full((1, 2), -1, np.int32) for name in ("node_token", "next_token", "next_sibling")}
    arguments |= {"target_predict": np.zeros((1, 2), np.int32), "node_count": i32(1), "stop_token": i32(),
                  "token_limit": i32(1), "depth_limit": 3}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        tree_accept(**(arguments | change))
