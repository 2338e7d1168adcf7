"""tree_build: equal scores, where only the order of the rank tuples decides."""

from __future__ import annotations

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.topk import F32, UNIT, bf16_rows, build_inputs, scaled
from harness.draw import Draw

EQUAL_KINDS = ("zero", "minus_zero", "same", "levels", "two_values")


def _bf16(params: Params, draw: Draw) -> Draft:
    rows = bf16_rows(draw, (2, int(params["L"]), int(params["K"])))
    rows[:, 0, 1] = rows[:, 0, 0]  # whole subtrees tie
    return Draft(build_inputs(draw, rows), {"budget": int(params["budget"])}, ("ties",))


def _equal(params: Params, draw: Draw) -> Draft:
    rows = equal_rows(draw, int(params["L"]), int(params["K"]), str(params["kind"]))
    return Draft(build_inputs(draw, rows[None]), {"budget": int(params["budget"])}, ("ties", "all_equal"))


def equal_rows(draw: Draw, depth: int, width: int, kind: str) -> F32:
    """float32 [L,K] of few values.

    ``zero``: a child ties with its parent. ``minus_zero``: zeros of both signs. ``same``: one value.
    ``levels``: one value for each level, some of them 0. ``two_values``: half a level each.
    """
    level = draw.below(4, (depth, 1)) * UNIT
    if kind == "zero":
        steps = np.zeros((depth, width), np.int64)
    elif kind == "same":
        steps = np.full((depth, width), draw.integer(1, 8 * UNIT))
    elif kind == "levels":
        steps = np.broadcast_to(level, (depth, width))
    elif kind == "two_values":
        steps = level + np.where(np.arange(width) < (width + 1) // 2, 0, UNIT)
    else:
        return np.where(draw.chance(50, (depth, width)), np.float32(0), np.float32("-0")).astype(np.float32)
    return scaled(steps, -20)


BF16_TIES = Family(
    "bf16_ties",
    "tree_build",
    "Log-probs rounded to bf16, as a bf16 lm_head gives them: several equal scores in every tree.",
    tiers(
        grid(L=(5,), K=(8,), budget=(33,), i=(0,)),
        grid(L=(3, 7, 15), K=(4, 8, 16), budget=(16, 40, 64), i=(0, 1)),
    ),
    _bf16,
)

ALL_EQUAL = Family(
    "all_equal",
    "tree_build",
    "Rows of one or two values: nearly every node ties, and with log-prob 0 a child ties with its parent.",
    tiers(
        grid(kind=("zero", "same"), L=(3,), K=(5,), budget=(20,)),
        grid(kind=EQUAL_KINDS, L=(2, 8), K=(3, 8, 33), budget=(20, 64)),
    ),
    _equal,
)
