"""greedy_step, synthesized: one or three consecutive steps with queries, tail rows and predictions given.

The state between steps (root, prefix, limit) follows from the references, so every step's inputs are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import references
from harness.case import AnyArray, Recipe, small_integer_bf16
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.paging import pages
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.shapes import depths, follow, path_to, steer
from harness.cases.blocks.short_rows import cut
from harness.cases.blocks.topk import VOCABULARY, grid_rows, tokens
from harness.cases.blocks.walks import FRESH
from harness.contract import NO_LIMIT
from harness.draw import Draw

I32 = npt.NDArray[np.int32]
BF16_NAN = 0x7FC0


class Layout(NamedTuple):
    """Heads and widths; ``scale``, and the power of two below the queries' integers, keep logits near 1."""

    Hq: int
    Hkv: int
    Dk: int
    Dv: int
    R: int
    scale: float
    q_shift: int


MLA_SCALE = float(np.float32(0.130861))
LAYOUTS = {
    "mla1": Layout(1, 1, 576, 512, 576, MLA_SCALE, 7),
    "mla2": Layout(2, 1, 576, 512, 576, MLA_SCALE, 7),
    "gqa2x1": Layout(2, 1, 16, 8, 24, 0.25, 5),
    "gqa4x2": Layout(4, 2, 16, 16, 64, 0.25, 5),
    "gqa6x2": Layout(6, 2, 8, 24, 64, 0.375, 5),
    "gqa8x2": Layout(8, 2, 64, 64, 256, 0.125, 5),
}
STOP = FRESH + 77
# scenario: drafts that the target agrees with in each step of request 0, and drafts accepted (-1: asleep)
PLANS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "changing": ((3, 0, 1), (3, 0, 1)),
    "stop": ((3, 0, 0), (2, -1, -1)),  # the second draft of the first step is a stop token
    "limit": ((2, 3, 0), (2, 2, -1)),  # 5 tokens: 3 in the first step, 2 in the second
    "sizes": ((1, 0, 2), (1, 0, 2)),
    "no_prediction": ((2, 0, 0), (2, -1, -1)),
}
SCENARIOS = ("plain", *PLANS, "inactive", "chain")


def candidates(draw: Draw, scenario: str, step: int, shape: tuple[int, int, int]) -> dict[str, AnyArray]:
    """``topk_logprob`` and ``topk_token`` [B,L,K] of one step.

    ``sizes``: whole trees, then root-only and small ones, then whole ones again. ``stop``: every second
    draft of request 0 is the stop token in the first step.
    """
    rows = grid_rows(draw, shape, "decisive" if scenario in PLANS else "mixed")
    token = tokens(draw, shape)
    if scenario == "sizes" and step == 1:
        for b in range(shape[0]):
            rows[b] = cut(draw, rows[b], "first_level" if b == 0 else "first_only")
    if scenario == "stop" and step == 0:
        token[0, 1] = STOP
    return {"topk_logprob": rows, "topk_token": token}


def predictions(draw: Draw, build: dict[str, AnyArray], drafts: int | None, last: int) -> I32:
    """target_predict int32 [B,N] for one step's trees: 70 % of the nodes follow a child.

    Request 0 is led along a path of ``drafts`` nodes, if its tree is deep enough, and ``last`` is predicted
    at the end. Slots past node_count predict a token of the tree.
    """
    predict = np.full(build["node_token"].shape, 5, np.int64)
    for b, count in enumerate(build["node_count"].tolist()):
        if count == 0:
            continue
        parents = build["node_parent"][b, :count].astype(np.int64)
        token = build["node_token"][b, :count].astype(np.int64)
        predict[b, :count] = follow(draw, parents, token, 70)
        predict[b, count:] = token[-1]
        if b == 0 and drafts is not None:
            depth = depths(parents)
            ends = np.flatnonzero(depth == min(drafts, int(depth.max())))
            steer(predict[b], token, path_to(parents, int(draw.choice(ends.tolist()))), last)
    return predict.astype(np.int32)


def first_state(draw: Draw, scenario: str, batch: int) -> dict[str, AnyArray]:
    """``root_token``, ``prefix_len`` and ``token_limit`` int32 [B] of the first step."""
    root = draw.below(VOCABULARY, batch).astype(np.int32)
    if scenario == "inactive":
        root[draw.integer(0, batch - 1)] = -1
    limit = np.full(batch, NO_LIMIT, np.int32)
    if scenario == "limit":
        limit[:] = 40
        limit[0] = 5
    return {"root_token": root, "prefix_len": draw.below(20, batch).astype(np.int32), "token_limit": limit}


def attention_rows(
    draw: Draw, node_count: AnyArray, layout: Layout, nodes: int, layers: int
) -> dict[str, AnyArray]:
    """``q`` bf16 [B,N,Hq,Dk] and ``tail`` bf16 [Y,B,N,R]: small integers / 2^k, NaN past the live nodes."""
    batch = len(node_count)
    q = small_integer_bf16(draw.below(256, (batch, nodes, layout.Hq, layout.Dk)) - 128, layout.q_shift)
    tail = small_integer_bf16(draw.below(256, (layers, batch, nodes, layout.R)) - 128, 7)
    dead = np.arange(nodes) >= node_count[:, None]
    q[dead] = BF16_NAN
    tail[:, dead] = BF16_NAN
    return {"q": q, "tail": tail}


def _make(params: Params, draw: Draw) -> Draft | None:
    scenario, steps, layout = str(params["scenario"]), int(params["U"]), LAYOUTS[str(params["layout"])]
    batch, nodes, layers, slots = (int(params[k]) for k in ("B", "N", "Y", "S"))
    depth, width = (nodes, 1) if scenario == "chain" else (5, 4)
    agreed, accepted = PLANS.get(scenario, ((None,) * steps, ()))
    stop = np.array([STOP] if scenario == "stop" else [], np.int32)
    state = first_state(draw, scenario, batch)
    stored: list[dict[str, AnyArray]] = []
    for u in range(steps):
        rows = candidates(draw, scenario, u, (batch, depth, width))
        build = references.tree_build(
            topk_logprob=rows["topk_logprob"],
            topk_token=rows["topk_token"],
            root_token=state["root_token"],
            prefix_len=state["prefix_len"],
            budget=nodes - 1,
        )
        last = -1 if scenario == "no_prediction" else FRESH + u
        predict = predictions(draw, build, agreed[u], last)
        model = attention_rows(draw, build["node_count"], layout, nodes, layers)
        stored.append({**rows, **state, **model, "target_predict": predict})
        accept = references.tree_accept(
            node_token=build["node_token"],
            next_token=build["next_token"],
            next_sibling=build["next_sibling"],
            target_predict=predict,
            node_count=build["node_count"],
            stop_token=stop,
            token_limit=state["token_limit"],
            depth_limit=depth,
        )
        if accepted and accept["accept_len"][0] != accepted[u]:
            return None  # a tree too shallow for the plan
        state = references.next_state(
            bonus_token=accept["bonus_token"],
            out_token=accept["out_token"],
            finished=accept["finished"],
            new_len=state["prefix_len"] + accept["accept_len"] + 1,
            token_limit=state["token_limit"],
        )
    inputs = {name: np.stack([step[name] for step in stored]) for name in stored[0]}
    mapped = nodes * (inputs["root_token"] != -1).any(axis=0)
    table, count = pages(draw, inputs["prefix_len"].max(axis=0).tolist(), mapped.tolist(), slots)
    pool = Recipe("unit_bf16", draw.integer(0, 2**32 - 1), (layers, count, slots, layout.R))
    return Draft(
        {**inputs, "stop_token": stop, "block_table": table, "kv": pool},
        {
            "budget": nodes - 1, "depth_limit": depth, "Hkv": layout.Hkv, "Dv": layout.Dv,
            "scale": layout.scale, "layer": layers - 1,
        },
        _flags(params),
    )  # fmt: skip


def _flags(params: Params) -> tuple[str, ...]:
    scenario, several, alone = str(params["scenario"]), int(params["U"]) > 1, int(params["N"]) == 1
    flags = {
        "plain": ["greedy"],
        "changing": ["changing_accepts"],
        "stop": ["stop_token", *(["finishes"] if several else [])],
        "limit": ["token_limit", *(["finishes"] if several else [])],
        "sizes": ["changing_sizes", "no_candidate", "padded_nodes"],
        "no_prediction": ["no_prediction"],
        "inactive": ["inactive"],
        "chain": ["chain"],
    }[scenario]
    flags += [str(params["layout"])[:3]]
    flags += ["several_steps"] if several else []
    flags += ["other_layer"] if int(params["Y"]) > 1 else []
    flags += ["root_only"] if alone else []
    return tuple(flags)


SYNTHESIZED = Family(
    "synthesized",
    "greedy_step",
    "Build, attention, accept and commit in a row; requests finish, sleep and accept other lengths.",
    tiers(
        [
            *grid(scenario=("plain",), layout=("mla1",), U=(1,), B=(2,), N=(5,), Y=(1,), S=(4,)),
            *grid(scenario=("changing",), layout=("gqa4x2",), U=(3,), B=(2,), N=(9,), Y=(2,), S=(4,)),
            *grid(scenario=SCENARIOS[2:], layout=("gqa2x1",), U=(3,), B=(2,), N=(9,), Y=(2,), S=(4,)),
            *grid(scenario=("plain",), layout=("gqa2x1",), U=(3,), B=(2,), N=(1,), Y=(1,), S=(4,)),
        ],
        [
            *grid(
                scenario=SCENARIOS, layout=("gqa2x1", "gqa4x2", "gqa6x2"),
                U=(3,), B=(2, 4), N=(9, 17), Y=(2,), S=(4,),
            ),
            *grid(scenario=SCENARIOS, layout=("mla1",), U=(3,), B=(2,), N=(9,), Y=(1,), S=(16,)),
            *grid(
                scenario=("plain", "stop", "limit"), layout=("mla1", "mla2", "gqa4x2", "gqa8x2"),
                U=(1,), B=(1, 3), N=(7, 17), Y=(3,), S=(7,),
            ),
            *grid(  # masks of several words, more requests
                scenario=("plain", "changing", "sizes"), layout=("gqa2x1",),
                U=(3,), B=(6,), N=(40, 70), Y=(2,), S=(16,),
            ),
        ],
        grid(scenario=SCENARIOS, layout=("mla2", "gqa8x2"), U=(3,), B=(8,), N=(33,), Y=(4,), S=(64,)),
    ),
    _make,
)  # fmt: skip
