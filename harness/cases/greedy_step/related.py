"""Metamorphic greedy steps: one tree and two chains that hold its first branch, under one model.

The model is a function of the path: what it predicts after some tokens, its query and its rows are the same
wherever a path stands. Side ``tree`` has several candidates a level; side ``chain`` has the first of each, as
far as the first branch of the tree goes, and -inf behind; side ``narrow`` is that chain in rows of one
candidate. So the chains give equal answers, nodes of the first branch equal outputs, and the tree accepts at
least as much.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import references
from harness.case import AnyArray, Recipe, small_integer_bf16
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.paging import pages
from harness.cases.blocks.plans import tiers
from harness.cases.blocks.topk import VOCABULARY, grid_rows, tokens
from harness.cases.blocks.walks import FRESH
from harness.cases.greedy_step.synthesized import BF16_NAN, LAYOUTS
from harness.contract import NO_LIMIT
from harness.draw import Draw

SIDES = ("tree", "chain", "narrow")
DEPTH, WIDTH = 5, 4
Path = tuple[int, ...]  # candidate ranks from the root


def _smoke() -> Iterator[Params]:
    for side in SIDES:
        yield {"layout": "gqa2x1", "B": 1, "N": 9, "S": 4, "i": 0, "side": side}


def _standard() -> Iterator[Params]:
    for i, (layout, batch, nodes) in enumerate(
        (("gqa4x2", 2, 9), ("gqa2x1", 3, 17), ("mla1", 2, 9), ("gqa6x2", 2, 33), ("gqa8x2", 2, 17))
    ):
        for side in SIDES:
            yield {"layout": layout, "B": batch, "N": nodes, "S": 7, "i": i, "side": side}


def _make(params: Params, draw: Draw) -> Draft:
    layout, side = LAYOUTS[str(params["layout"])], str(params["side"])
    batch, nodes, slots = (int(params[k]) for k in ("B", "N", "S"))
    given: dict[str, AnyArray] = {
        "topk_logprob": grid_rows(draw, (batch, DEPTH, WIDTH), "decisive"),
        "topk_token": tokens(draw, (batch, DEPTH, WIDTH)),
        "root_token": draw.below(VOCABULARY, batch).astype(np.int32),
        "prefix_len": (3 + draw.below(20, batch)).astype(np.int32),
    }
    seeds = [draw.integer(0, 2**32 - 1) for _ in range(batch)]
    table, count = pages(draw, given["prefix_len"].tolist(), nodes, slots)
    pool = Recipe("unit_bf16", draw.integer(0, 2**32 - 1), (1, count, slots, layout.R))
    rows: dict[str, AnyArray] = given
    if side != "tree":
        rows = {**given, "topk_logprob": _first_branch(given, nodes)}
    if side == "narrow":
        rows |= {name: rows[name][..., :1].copy() for name in ("topk_logprob", "topk_token")}
    build = references.tree_build(**rows, budget=nodes - 1)
    q = np.full((batch, nodes, layout.Hq, layout.Dk), BF16_NAN, np.uint16)
    tail = np.full((1, batch, nodes, layout.R), BF16_NAN, np.uint16)
    predict = np.full((batch, nodes), -1, np.int32)
    for b in range(batch):
        for i, path in enumerate(ranks(build, rows["topk_token"][b], b)):
            own = Draw(_seed(seeds[b], path))
            q[b, i] = small_integer_bf16(own.below(256, (layout.Hq, layout.Dk)) - 128, layout.q_shift)
            tail[0, b, i] = small_integer_bf16(own.below(256, layout.R) - 128, 7)
            predict[b, i] = _prediction(own, given["topk_token"][b], path)
    inputs = {**rows, "q": q, "target_predict": predict, "token_limit": np.full(batch, NO_LIMIT, np.int32)}
    flags = ["metamorphic", str(params["layout"])[:3], *(["chain"] if side != "tree" else ["greedy"])]
    return Draft(
        {
            **{name: value[None] for name, value in inputs.items()},
            "tail": tail[None],
            "stop_token": np.zeros(0, np.int32),
            "block_table": table,
            "kv": pool,
        },
        {
            "budget": nodes - 1, "depth_limit": DEPTH, "Hkv": layout.Hkv, "Dv": layout.Dv,
            "scale": layout.scale, "layer": 0,
        },
        tuple(flags),
    )  # fmt: skip


def _first_branch(given: dict[str, AnyArray], nodes: int) -> AnyArray:
    """Log-probs in which only the first branch of each tree is left."""
    build = references.tree_build(**given, budget=nodes - 1)
    left = np.full_like(given["topk_logprob"], -np.inf)
    for b in range(len(left)):
        depth = max(len(p) for p in ranks(build, given["topk_token"][b], b) if not any(p))
        left[b, :depth, 0] = given["topk_logprob"][b, :depth, 0]
    return left


def ranks(build: dict[str, AnyArray], token: AnyArray, b: int) -> list[Path]:
    """The ranks of every live node of request ``b``; ``token`` int32 [L,K] holds no token of a row twice."""
    paths: list[Path] = [()]
    for i in range(1, int(build["node_count"][b])):
        depth = int(build["node_depth"][b, i])
        rank = int(np.flatnonzero(token[depth - 1] == build["node_token"][b, i])[0])
        paths.append((*paths[int(build["node_parent"][b, i])], rank))
    return paths


def _seed(seed: int, path: Path) -> int:
    """A seed for a path, distinct for all paths of one request."""
    for rank in path:
        seed = seed * 8 + rank + 1
    return seed % 2**63


def _prediction(draw: Draw, token: AnyArray, path: Path) -> int:
    """Nine times in ten a candidate of the next level, mostly its first; else, or past it, another token."""
    if len(path) == DEPTH or draw.integer(0, 9) == 0:
        return FRESH + draw.integer(0, 50)
    return int(token[len(path), (0, 0, 0, 1, 2)[draw.integer(0, 4)]])


RELATED = Family(
    "related",
    "greedy_step",
    "A tree and the chain of its first branch under one model: equal outputs, and the tree accepts no less.",
    tiers(_smoke(), _standard()),
    _make,
    partners="side",
)
