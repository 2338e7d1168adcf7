"""greedy_step, planted: the head is the nearest centroid, and wrong inputs change what is predicted."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from built import SEED, exclusive_slots, expected, inputs

import references
from harness.case import AnyArray, Case
from harness.cases.base import make_case
from harness.cases.blocks.attention import masks as masks
from harness.cases.blocks.planted.centroid_head import DECOY
from harness.cases.blocks.planted.proof import FLASH_LIMIT
from harness.cases.greedy_step.planted import PLANTED

EXTRA = (4, 12, 24, 37, 47)  # of the standard suite, besides the smoke cases


@cache
def planted() -> tuple[Case, ...]:
    """The smoke cases, which come first, and some of the standard suite."""
    plan = list(PLANTED.plan("standard"))
    chosen = [*range(len(list(PLANTED.plan("smoke")))), *EXTRA]
    return tuple(make_case(PLANTED, plan[i], SEED) for i in chosen)


def first_step(case: Case, **wrong: Any) -> dict[str, AnyArray]:
    """The first step of a case from the references alone; ``wrong`` replaces what a stage is given."""
    given, scalars = inputs(case), case.scalars
    groups, dv = int(scalars["Hkv"]), int(scalars["Dv"])
    width = given["kv"].shape[-1]
    build = references.tree_build(
        topk_logprob=given["topk_logprob"][0],
        topk_token=given["topk_token"][0],
        root_token=given["root_token"][0],
        prefix_len=given["prefix_len"][0],
        budget=int(scalars["budget"]),
    )
    embedded = references.planted_embed(
        node_token=build["node_token"],
        position=build["position"] + wrong.get("position", np.int32(0)),
        node_count=build["node_count"],
        prefix_len=given["prefix_len"][0],
        block_table=given["block_table"],
        kv=given["kv"],
        Hq=given["head"].shape[2] // dv,
        Dk=width if groups == 1 else width // groups - dv,
    )
    attention = references.verify_attn(
        q=embedded["q"],
        kv=embedded["kv"][int(scalars["layer"])],
        block_table=given["block_table"],
        prefix_len=given["prefix_len"][0] + wrong.get("prefix", np.int32(0)),
        node_count=build["node_count"],
        tree_mask=wrong.get("mask", build["tree_mask"]),
        Hkv=groups,
        Dv=dv,
        scale=scalars["scale"] * wrong.get("scale", 1.0),
    )
    head = references.planted_head(
        out=references.float_to_bf16(attention["out"]),
        node_count=build["node_count"],
        head=given["head"][0],
        head_bias=given["head_bias"][0],
        head_token=given["head_token"][0],
    )
    accept = references.tree_accept(
        node_token=build["node_token"],
        next_token=build["next_token"],
        next_sibling=build["next_sibling"],
        target_predict=head["target_predict"],
        node_count=build["node_count"],
        stop_token=given["stop_token"],
        token_limit=given["token_limit"][0],
        depth_limit=int(scalars["depth_limit"]),
    )
    return {**build, **attention, **head, **accept}


def wrong_ways(case: Case, right: dict[str, AnyArray]) -> dict[str, dict[str, Any]]:
    """Some of the wrong inputs, made here from scratch."""
    mask, prefix = right["tree_mask"], inputs(case)["prefix_len"][0]
    nodes, counts = mask.shape[1], right["node_count"].tolist()
    ways: dict[str, dict[str, Any]] = {
        "causal": {"mask": np.stack([masks.pack(masks.causal(n), nodes) for n in counts])},
        "full": {"mask": np.stack([masks.pack(np.ones((n, n), np.bool_), nodes) for n in counts])},
        "empty": {"mask": mask * np.uint32(0)},
        "prefix_plus_1": {"prefix": np.int32(1)},
        "scale": {"scale": 3.0**-0.5},
        "position": {"position": np.int32(1)},
        "position_is_depth": {"position": -prefix[:, None]},
    }
    if (prefix > 0).all():
        ways["prefix_minus_1"] = {"prefix": np.int32(-1)}
    for bit in range(min([*counts, 3]), 0, -1):
        ways[f"bit_{bit}"] = {"mask": mask ^ np.uint32(1 << (bit - 1))}
    return ways


@pytest.mark.parametrize("number", range(9))
def test_wrong_inputs_change_the_prediction_and_the_accepted_tokens(number: int) -> None:
    case = planted()[number]
    right = first_step(case)
    assert np.array_equal(right["target_predict"], expected(case)["target_predict"][0])
    changed = 0
    for name, way in wrong_ways(case, right).items():
        wrong = first_step(case, **way)
        for b, count in enumerate(right["node_count"].tolist()):
            differs = np.abs(wrong["out"] - right["out"])[b, :count].max(axis=(-1, -2)) > 1e-9
            predicted = wrong["target_predict"][b, :count] != right["target_predict"][b, :count]
            assert np.array_equal(differs, predicted), (name, b)
            changed += int(predicted.sum())
            path = right["accept_index"][b, : right["accept_len"][b] + 1]
            asked = path if right["bonus_token"][b] != -1 else path[:-1]
            if predicted[asked].any():
                names = ("accept_index", "accept_len", "bonus_token", "out_token")
                assert any((wrong[n][b] != right[n][b]).any() for n in names), (name, b)
    assert changed > 20


def test_right_predictions_are_planned_tokens_and_drafts_are_accepted() -> None:
    for case in planted():
        out = expected(case)
        live = np.arange(out["target_predict"].shape[2]) < out["node_count"][..., None]
        assert (out["target_predict"][live] >= 0).all() and (out["target_predict"] < DECOY).all()
        running = out["node_count"].any(axis=1)
        assert (out["accept_len"].max(axis=1)[running] >= 1).all(), case.case_id


def test_notes_add_up() -> None:
    for case in planted():
        notes = case.notes
        assert notes["wrong_inputs"] == notes["equal_outputs"] + notes["changed_predict"]
        assert notes["changed_predict"] >= 0.8 * notes["wrong_inputs"]
        assert notes["changed_accept"] > 0
        assert notes["min_margin_ratio"] >= 1 or 0 < notes["flash_margin_used"] <= FLASH_LIMIT


def test_preconditions() -> None:
    for case in planted():
        given = inputs(case)
        pages, slots = given["kv"].shape[1:3]
        nodes = int(case.scalars["budget"]) + 1
        for u, root in enumerate(given["root_token"]):
            # One slot more than the contract asks: a prefix that is off by one must read finite rows.
            tails = np.where(root != -1, nodes + 1, 0).tolist()
            exclusive_slots(given["block_table"], given["prefix_len"][u], tails, slots, pages)
        assert np.isfinite(given["head_bias"]).all()
        assert np.isfinite(references.bf16_to_float32(given["head"])).all()
        tokens = given["head_token"]
        decoys = tokens[tokens >= DECOY]
        assert (
            not np.isin(decoys, given["topk_token"]).any() and not np.isin(decoys, given["root_token"]).any()
        )


def test_one_seed_gives_the_same_bits() -> None:
    for case, params in zip(planted(), PLANTED.plan("smoke"), strict=False):
        again = make_case(PLANTED, params, SEED)
        assert again.case_id == case.case_id and again.notes == case.notes
        for name, value in inputs(case).items():
            assert value.tobytes() == inputs(again)[name].tobytes()
