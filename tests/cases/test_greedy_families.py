"""greedy_step, synthesized: state runs from step to step, pages hold the tail, scenarios happen."""

from __future__ import annotations

import numpy as np
import pytest
from built import cases, exclusive_slots, expected, inputs, parameter

import references
from harness.case import AnyArray, Case


def scenario(name: str) -> list[Case]:
    return [case for case in cases("greedy_step", "synthesized") if parameter(case, "scenario") == name]


def test_preconditions() -> None:
    for case in cases("greedy_step", "synthesized"):
        given, out = inputs(case), expected(case)
        nodes = int(case.scalars["budget"]) + 1
        pages, slots = given["kv"].shape[1:3]
        for u in range(len(given["root_token"])):
            tails = np.where(given["root_token"][u] != -1, nodes, 0).tolist()
            exclusive_slots(given["block_table"], given["prefix_len"][u], tails, slots, pages)
            live = np.arange(nodes) < out["node_count"][u][:, None]
            assert np.isfinite(references.bf16_to_float32(given["q"][u][live])).all()
            assert np.isfinite(references.bf16_to_float32(given["tail"][u][:, live])).all()
            assert (out["tree_status"][u] == 0).all() and (out["accept_status"][u] == 0).all()
        assert 0 <= int(case.scalars["layer"]) < given["kv"].shape[0]
        assert case.scalars["scale"] == float(np.float32(case.scalars["scale"]))


def test_state_runs_from_step_to_step() -> None:
    for case in cases("greedy_step", "synthesized"):
        given, out = inputs(case), expected(case)
        for u in range(len(given["root_token"]) - 1):
            after = references.next_state(
                bonus_token=out["bonus_token"][u],
                out_token=out["out_token"][u],
                finished=out["finished"][u],
                new_len=out["new_len"][u],
                token_limit=given["token_limit"][u],
            )
            for name, value in after.items():
                assert np.array_equal(value, given[name][u + 1]), (case.case_id, name)


def test_accepts_change() -> None:
    for case in scenario("changing"):
        assert expected(case)["accept_len"][:, 0].tolist() == [3, 0, 1]


@pytest.mark.parametrize("name", ["stop", "limit", "no_prediction"])
def test_requests_sleep_after_their_end(name: str) -> None:
    for case in scenario(name):
        given, out = inputs(case), expected(case)
        ended = {"stop": 0, "limit": 1, "no_prediction": 0}[name]
        if len(given["root_token"]) == 1:
            continue
        assert out["finished"][ended, 0] == (name != "no_prediction")
        assert (given["root_token"][ended + 1 :, 0] == -1).all(), case.case_id
        assert (out["node_count"][ended + 1 :, 0] == 0).all()
        assert (given["root_token"][ended + 1, 1:] != -1).any()
        kept = int(out["accept_len"][0, 0])
        if name == "stop":
            assert kept == 2 and out["bonus_token"][0, 0] == -1


def test_sizes_change() -> None:
    for case in scenario("sizes"):
        count = expected(case)["node_count"]
        assert count[1, 0] == 1 and count[0, 0] > 1 and count[2, 0] > 1


def test_chains_and_roots() -> None:
    for case in scenario("chain"):
        parents = expected(case)["node_parent"]
        live = parents[expected(case)["node_count"] > 0]
        assert (live == np.arange(parents.shape[-1]) - 1).all()
    alone = [case for case in scenario("plain") if "root_only" in case.flags]
    assert alone and all((expected(case)["accept_len"] == 0).all() for case in alone)


def test_some_paths_leave_the_first_branch() -> None:
    gaps = 0
    for case in cases("greedy_step", "synthesized"):
        path, kept = expected(case)["accept_index"], expected(case)["accept_len"]
        dense = np.where(np.arange(path.shape[-1]) <= kept[..., None], np.arange(path.shape[-1]), -1)
        gaps += bool((path != dense).any())
    assert gaps >= 80


def causal(mask: AnyArray) -> AnyArray:
    """uint32 [B,N,W]: every earlier slot and the node itself."""
    nodes = mask.shape[1]
    bits = np.tril(np.ones((nodes, mask.shape[2] * 32), np.uint8))
    words = np.packbits(bits, axis=1, bitorder="little").view("<u4")
    return np.broadcast_to(words, mask.shape).astype(np.uint32)


def test_a_causal_mask_shows() -> None:
    """One step of the first reads another lse under a causal mask, by far more than its allowance."""
    for case in cases("greedy_step", "synthesized")[::5]:
        if {"chain", "root_only"} & set(case.flags):
            continue
        given, out = inputs(case), expected(case)
        pool = given["kv"][case.scalars["layer"]].copy()
        slots = pool.shape[1]
        flat = pool.reshape(-1, pool.shape[2])
        for b in np.flatnonzero(given["root_token"][0] != -1):
            at = given["prefix_len"][0, b] + np.arange(given["q"].shape[2])
            flat[given["block_table"][b, at // slots] * slots + at % slots] = given["tail"][
                0, case.scalars["layer"], b
            ]
        wrong = references.verify_attn(
            q=given["q"][0],
            kv=pool,
            block_table=given["block_table"],
            prefix_len=given["prefix_len"][0],
            node_count=out["node_count"][0],
            tree_mask=causal(out["tree_mask"][0]),
            Hkv=int(case.scalars["Hkv"]),
            Dv=int(case.scalars["Dv"]),
            scale=float(case.scalars["scale"]),
        )
        live = out["lse"][0] > -np.inf
        assert np.abs(wrong["lse"][live] - out["lse"][0][live]).max() > 0.05, case.case_id
