"""Cases that come in pairs: the relation holds between the partners' expected values."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import pytest
from built import SEED, expected, inputs

from harness.case import AnyArray, Case
from harness.cases import FAMILIES
from harness.cases.base import make_case
from harness.cases.blocks.two_orders import turned
from harness.cases.greedy_step.related import ranks
from harness.cases.verify_attn.related import path_ends
from harness.contract import KERNELS
from references import unpack_mask

Pair = dict[str, Case]


def pairs(kernel: str, relation: str = "") -> list[Pair]:
    """The cases that differ in ``side`` alone, by side."""
    (family,) = [f for f in FAMILIES if (f.kernel, f.name) == (kernel, "related")]
    found: dict[str, Pair] = defaultdict(dict)
    for params in family.plan("standard"):
        if not relation or params["relation"] == relation:
            key = str({k: v for k, v in params.items() if k != "side"})
            found[key][str(params["side"])] = make_case(family, params, SEED)
    return list(found.values())


def close(one: dict[str, AnyArray], other: dict[str, AnyArray]) -> bool:
    """Equal attention outputs, but for the order of summation in float64."""
    near = [np.allclose(one[n], other[n], rtol=1e-6, atol=1e-9) for n in ("out", "lse", "out_m")]
    return all(near) and bool((one["visible"] == other["visible"]).all())


@pytest.mark.parametrize("kernel", KERNELS)
def test_partners_have_ids_that_differ_in_the_side_alone(kernel: str) -> None:
    for pair in pairs(kernel):
        assert len(pair) in (2, 3)
        stems = {re.sub(r"side_\w+-[0-9a-f]{8}$", "", case.case_id) for case in pair.values()}
        assert len(stems) == 1
        assert len({case.seed for case in pair.values()}) == 1
        assert all("metamorphic" in case.flags for case in pair.values())
        given = [inputs(case) for case in pair.values()]
        assert any(given[0][n].tobytes() != given[1][n].tobytes() for n in given[0])


@pytest.mark.parametrize("kernel", ["tree_build", "tree_accept"])
def test_an_answer_does_not_depend_on_the_place_in_the_batch(kernel: str) -> None:
    for pair in pairs(kernel):
        a, b = expected(pair["a"]), expected(pair["b"])
        for name in a:
            assert (a[name][0] == a[name][-1]).all()
            assert (a[name][turned(len(a[name]))] == b[name]).all()
        assert a["node_count" if kernel == "tree_build" else "accept_len"].size > 3


def test_a_commit_does_not_depend_on_the_order_of_the_batch() -> None:
    for pair in pairs("kv_commit"):
        a, b = expected(pair["a"]), expected(pair["b"])
        assert a["kv"].tobytes() == b["kv"].tobytes()
        assert (a["new_len"][turned(len(a["new_len"]))] == b["new_len"]).all()
        assert a["kv"].tobytes() != inputs(pair["a"])["kv"].tobytes()


def test_attention_of_requests_in_another_order() -> None:
    for pair in pairs("verify_attn", "order"):
        a, b = expected(pair["a"]), expected(pair["b"])
        assert close({n: v[turned(len(v))] for n, v in a.items()}, b)


@pytest.mark.parametrize("relation", ["pages", "page_size", "high"])
def test_attention_of_the_same_rows_in_other_pages(relation: str) -> None:
    for pair in pairs("verify_attn", relation):
        a, b = inputs(pair["a"]), inputs(pair["b"])
        live = int(a["node_count"].max())
        assert close(expected(pair["a"]), expected(pair["b"])) and live > 2
        for request, (prefix, count) in enumerate(zip(a["prefix_len"], a["node_count"], strict=True)):
            rows = [_rows(side, request, int(prefix + count)) for side in (a, b)]
            assert rows[0].tobytes() == rows[1].tobytes()
        if relation == "page_size":
            assert a["kv"].shape[1] != b["kv"].shape[1]
        if relation == "high":
            used = b["block_table"][:, 0]
            assert used.min() >= b["kv"].shape[0] // 2


def _rows(given: dict[str, AnyArray], request: int, count: int) -> AnyArray:
    slots, size = np.arange(count), given["kv"].shape[1]
    at = given["block_table"][request, slots // size].astype(np.int64) * size + slots % size
    rows: AnyArray = given["kv"].reshape(-1, given["kv"].shape[-1])[at]
    return rows


def test_the_end_of_a_path_is_the_end_of_a_chain() -> None:
    for pair in pairs("verify_attn", "paths"):
        given, a, b = inputs(pair["a"]), expected(pair["a"]), expected(pair["b"])
        live = int(given["node_count"][0])
        sees = unpack_mask(given["tree_mask"][0, :live], live)
        assert "chain" in pair["b"].flags
        for request, node in enumerate(path_ends(sees)):
            last = int(sees[node].sum()) - 1
            assert inputs(pair["b"])["node_count"][request] == last + 1
            assert close({n: v[0, node] for n, v in a.items()}, {n: v[request, last] for n, v in b.items()})


def test_a_chain_is_a_tree_of_width_one() -> None:
    for group in pairs("greedy_step"):
        chain, narrow = expected(group["chain"]), expected(group["narrow"])
        assert {n for n in chain if chain[n].tobytes() != narrow[n].tobytes()} == set()
        assert inputs(group["narrow"])["topk_token"].shape[-1] == 1


def test_a_tree_accepts_no_less_than_its_own_chain() -> None:
    more = 0
    for group in pairs("greedy_step"):
        tree, chain, given = expected(group["tree"]), expected(group["chain"]), inputs(group["tree"])
        assert (tree["accept_len"] >= chain["accept_len"]).all()
        more += int((tree["accept_len"] > chain["accept_len"]).sum())
        for b, count in enumerate(tree["accept_len"][0].tolist()):
            kept = int(chain["accept_len"][0, b])
            assert (tree["out_token"][0, b, :kept] == chain["out_token"][0, b, :kept]).all()
            step = {n: v[0] for n, v in tree.items() if n != "kv"}
            branch = [i for i, p in enumerate(ranks(step, given["topk_token"][0, b], b)) if not any(p)]
            for node, link in zip(branch, range(int(chain["node_count"][0, b])), strict=True):
                assert close(
                    {n: tree[n][0, b, node] for n in ("out", "lse", "out_m", "visible")},
                    {n: chain[n][0, b, link] for n in ("out", "lse", "out_m", "visible")},
                )
            assert count >= kept
    assert more > 0
