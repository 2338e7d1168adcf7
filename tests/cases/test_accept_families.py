"""tree_accept families: the contract's preconditions hold, and each family has what it claims."""

from __future__ import annotations

import numpy as np
from built import cases, expected, inputs, parameter

from harness.case import AnyArray, Case


def good_links(child: AnyArray, sibling: AnyArray, count: int) -> bool:
    """The link rule of the contract over the first ``count`` slots, written apart from the reference."""
    named: set[int] = set()
    for node in range(count):
        for link in (int(child[node]), int(sibling[node])):
            if link == -1:
                continue
            if not node < link < count or link in named:
                return False
            named.add(link)
    return True


def tree_of(case: Case, b: int) -> tuple[list[int], list[list[int]]]:
    """Parents and children in link order, of one request with good links."""
    given = inputs(case)
    count = int(given["node_count"][b])
    parents, below = [-1] * count, [[] for _ in range(count)]
    for node in range(count):
        step = int(given["next_token"][b, node])
        while step != -1:
            parents[step] = node
            below[node].append(step)
            step = int(given["next_sibling"][b, step])
    return parents, below


def depth_of(parents: list[int], node: int) -> int:
    return 0 if node <= 0 else 1 + depth_of(parents, parents[node])


def test_preconditions() -> None:
    for case in cases("tree_accept"):
        given, out = inputs(case), expected(case)
        batch, nodes = given["node_token"].shape
        assert nodes <= 1025 and 1 <= int(case.scalars["depth_limit"]) <= 32
        assert (given["stop_token"] >= -1).all() and (given["token_limit"] >= 0).all()
        for b in range(batch):
            count = int(given["node_count"][b])
            good = 0 <= count <= nodes and good_links(given["next_token"][b], given["next_sibling"][b], count)
            assert int(out["accept_status"][b]) == int(not good), case.case_id
        assert bool(out["accept_status"].any()) == (case.validity == "invalid"), case.case_id


def test_walks_cover_shapes_and_lengths() -> None:
    lengths = {int(n) for case in cases("tree_accept", "walks") for n in expected(case)["accept_len"]}
    assert set(range(7)) <= lengths and max(lengths) >= 20
    sizes = {int(inputs(case)["node_count"][0]) for case in cases("tree_accept", "walks")}
    assert {1, 2, 64, 257, 1025} <= sizes


def test_chosen_paths() -> None:
    for case in cases("tree_accept", "paths"):
        given, out, kind = inputs(case), expected(case), parameter(case, "path")
        for b in range(2):
            parents, below = tree_of(case, b)
            token, predict = given["node_token"][b], given["target_predict"][b]
            path = [i for i in out["accept_index"][b].tolist() if i >= 0]
            last = path[-1]
            if kind == "none":
                assert path == [0] and below[0]
            elif kind == "deepest":
                assert len(path) - 1 == max(depth_of(parents, i) for i in range(len(parents))) >= 3
            elif kind in ("last_child", "middle_child"):
                assert len(below[0]) >= 4 and path[1] in below[0][1:]
                assert (path[1] == below[0][-1]) == (kind == "last_child")
            elif kind == "gaps":
                assert path == [0, 2, 5]
            elif kind == "not_a_child":
                assert path == [0, 2] and below[2]
                (match,) = np.flatnonzero(token == predict[2])
                assert match not in below[2]
            elif kind == "later_match":
                agree = [i for i in range(1, len(parents)) if token[i] == predict[parents[i]]]
                assert path == [0] and len(agree) >= 2
            elif kind == "duplicates":
                assert path == [0, 2, 5] and token[4] == token[2] and 4 in below[0]
            else:
                assert predict[last] == -1 and out["bonus_token"][b] == -1 and out["finished"][b] == 0
                assert len(path) == len(parents) or (token[: len(parents)] == -1).any()


def test_trees_deeper_than_the_limit() -> None:
    for case in cases("tree_accept", "deeper"):
        limit = int(case.scalars["depth_limit"])
        assert (expected(case)["accept_len"] == limit).all(), case.case_id
        for b in range(2):
            parents, _ = tree_of(case, b)
            assert max(depth_of(parents, i) for i in range(len(parents))) > limit
        assert (expected(case)["bonus_token"] >= 0).all()


def test_stops_end_the_run_where_they_stand() -> None:
    emitted = {"first": 1, "middle": 3, "last": 5, "bonus": 6}
    for case in cases("tree_accept", "stop"):
        out, at = expected(case), parameter(case, "at")
        count = int((out["out_token"][0] >= 0).sum())
        if at in emitted:
            assert out["finished"][0] == 1 and count == emitted[at], case.case_id
        elif at == "several":
            assert out["finished"][0] == 1 and count == (4 if parameter(case, "T") == "1" else 2)
        else:
            assert out["finished"][0] == 0 and count == 6
        assert out["finished"][1] == 0 and (out["out_token"][1] >= 0).sum() == 6
        assert (out["bonus_token"][0] == -1) == (count < 6)


def test_limits_end_the_run() -> None:
    for case in cases("tree_accept", "limit"):
        given, out = inputs(case), expected(case)
        limit = int(given["token_limit"][0])
        count = int((out["out_token"][0] >= 0).sum())
        stopped = parameter(case, "stop") == "before" and limit >= 2
        assert count == min(limit - stopped, 6), case.case_id
        done = limit <= 6 or (stopped and limit - 1 <= 6)
        assert bool(out["finished"][0]) == done, case.case_id
        assert ("stop_and_limit" in case.flags) == (given["stop_token"].size > 0)


def test_ragged_batches_differ() -> None:
    for case in cases("tree_accept", "ragged"):
        paths = expected(case)["accept_index"].tolist()
        assert any(path[:3] == [0, 2, 5] for path in paths), case.case_id
        assert (expected(case)["accept_len"] == 0).any()
        assert len(set(inputs(case)["node_count"].tolist())) > 1 or len(paths) == 2


def test_padding_would_be_refused_or_walked() -> None:
    for case in cases("tree_accept", "padding"):
        given = inputs(case)
        nodes = given["node_token"].shape[1]
        assert all(
            not good_links(given["next_token"][b], given["next_sibling"][b], nodes)
            for b in range(len(given["node_count"]))
        ), case.case_id


def test_inactive_requests() -> None:
    for case in cases("tree_accept", "inactive"):
        out = expected(case)
        asleep = inputs(case)["node_count"] == 0
        assert asleep.any() and ((out["accept_len"] == -1) == asleep).all()


def test_malformed_requests_hit_one_request() -> None:
    for case in cases("tree_accept", "invalid"):
        out = expected(case)
        place = {"first": 0, "middle": 1, "last": 2}[parameter(case, "at")]
        assert out["accept_status"].tolist() == [int(b == place) for b in range(3)]
        assert out["accept_len"].tolist() == [0 if b == place else 3 for b in range(3)]


def naive_walk(case: Case, b: int, steps: int) -> str:
    """What a walk without checks meets: the ``end``, a ``loop`` or something ``outside`` the live tree."""
    given = inputs(case)
    token, child, sibling, predict = (
        given[name][b] for name in ("node_token", "next_token", "next_sibling", "target_predict")
    )
    count, at = int(given["node_count"][b]), 0
    for _ in range(steps):
        node = int(child[at])
        for _ in range(steps):
            if node == -1 or (0 <= node < count and token[node] == predict[at]):
                break
            if not 0 <= node < count:
                return "outside"
            node = int(sibling[node])
        else:
            return "loop"
        if node == -1:
            return "end"
        at = node
    return "loop"


def test_bad_links_are_walked_over_unless_flagged() -> None:
    met = {}
    for case in cases("tree_accept", "invalid"):
        if "bad_links" in case.flags:
            place = {"first": 0, "middle": 1, "last": 2}[parameter(case, "at")]
            met[parameter(case, "bad")] = (naive_walk(case, place, 50), "unwalked_links" in case.flags)
    loops = {"sibling_cycle", "sibling_self", "child_self", "child_to_root", "backward"}
    outside = {"to_padding", "past_slots", "huge", "minus_two", "least"}
    assert {kind for kind, (end, _) in met.items() if end == "loop"} == loops
    assert {kind for kind, (end, _) in met.items() if end == "outside"} == outside
    assert all(end == "end" for end, unwalked in met.values() if unwalked)
