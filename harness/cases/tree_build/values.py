"""tree_build: token ids and positions that must be carried through, not recomputed or reused."""

from __future__ import annotations

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.topk import build_inputs, grid_rows, tokens
from harness.draw import Draw

TOKEN_KINDS = ("repeated", "one", "huge", "falling")


def _tokens(params: Params, draw: Draw) -> Draft:
    """Ids ``repeated`` at every depth, ``one`` id, ``huge`` up to 2^31 - 1, or ``falling`` with the rank."""
    shape = (2, int(params["L"]), int(params["K"]))
    kind = str(params["ids"])
    if kind == "repeated":
        ids = np.broadcast_to(tokens(draw, (2, 1, shape[2])), shape).copy()
    elif kind == "one":
        ids = np.full(shape, draw.integer(0, 99), np.int32)
    elif kind == "huge":
        ids = tokens(draw, shape, 2**31)
        ids[:, 0, 0] = 2**31 - 1
    else:
        ids = np.arange(1000, 1000 - 2 * shape[1] * shape[2], -1, dtype=np.int32).reshape(shape)
    flag = "repeated_tokens" if kind in ("repeated", "one") else "sparse_tokens"
    inputs = build_inputs(draw, grid_rows(draw, shape, "even"), topk_token=ids)
    return Draft(inputs, {"budget": int(params["budget"])}, (flag,))


def _prefix(params: Params, draw: Draw) -> Draft:
    budget, batch = int(params["budget"]), 3
    largest = 2**31 - 2 - budget  # prefix_len + N stays below 2^31
    value = {"zero": 0, "one": 1, "largest": largest}[str(params["prefix"])]
    prefix = np.array([value, draw.integer(2, 1000), value], np.int32)
    inputs = build_inputs(draw, grid_rows(draw, (batch, 6, 4), "decisive"), prefix_len=prefix)
    flag = "huge_prefix" if value == largest else "zero_prefix"
    return Draft(inputs, {"budget": budget}, (flag, "ragged_batch"))


TOKENS = Family(
    "tokens",
    "tree_build",
    "Token ids that say nothing about depth or rank.",
    tiers(
        grid(ids=("repeated", "huge"), L=(3,), K=(4,), budget=(14,)),
        grid(ids=TOKEN_KINDS, L=(3, 8), K=(3, 8), budget=(20, 40)),
    ),
    _tokens,
)

PREFIX = Family(
    "prefix",
    "tree_build",
    "Positions from 0 to just below 2^31, another prefix in each request.",
    tiers(
        grid(prefix=("zero", "largest"), budget=(12,)),
        grid(prefix=("zero", "one", "largest"), budget=(12, 31, 32, 64)),
    ),
    _prefix,
)
