"""tree_build: valid log-probs of every magnitude, from the smallest float32 below 0 to the largest."""

from __future__ import annotations

import numpy as np

from harness.case import AnyArray
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.topk import F32, build_inputs, descending, scaled
from harness.draw import Draw

# Bit patterns of negative floats: subnormal, smallest normal, near 1, below -1000, below -1e30, largest.
PATTERNS = (0x80000001, 0x80000400, 0x80800000, 0xBF800001, 0xC47A8000, 0xF149F2CA, 0xFF7FFFFF)

CHEAP = 2  # ranks of a row of ``split`` that enter its tree


def split_rows(draw: Draw, shape: tuple[int, int, int]) -> F32:
    """Rows [B,L,K] of which the first ranks are subnormal and the others huge.

    The tree is made of the first ranks alone. What finds its scores by bins, or by steps, of one width over
    all log-probs has them all in one place, or at 0.
    """
    batch, depth, width = shape
    cheap = np.sort(1 + draw.below(1 << 20, (batch, depth, CHEAP)), axis=-1)
    dear = np.sort(1 + draw.below(1 << 20, (batch, depth, width - CHEAP)), axis=-1)
    return np.concatenate([scaled(cheap, -149), scaled(dear, 60)], axis=-1)


def _extremes(params: Params, draw: Draw) -> Draft:
    """Rows of ``K`` values picked from `PATTERNS`; ``all``: one of each, so that each enters the tree.

    ``split``: `split_rows`.
    """
    shape = 2, int(params["L"]), int(params["K"])
    values = np.array(PATTERNS, np.uint32).view(np.float32)
    rows: AnyArray = values[draw.below(len(PATTERNS), shape)]
    if params["rows"] == "all":
        rows = np.broadcast_to(values[: shape[2]], shape)
    elif params["rows"] == "split":
        rows = split_rows(draw, shape)
    inputs = build_inputs(draw, np.ascontiguousarray(descending(rows)))
    return Draft(inputs, {"budget": int(params["budget"])}, ("every_magnitude",))


EXTREMES = Family(
    "extremes",
    "tree_build",
    "Subnormal and huge log-probs are as good as any other; only -inf is none.",
    tiers(
        grid(rows=("all",), L=(2,), K=(7,), budget=(16,)),
        grid(rows=("all", "mixed"), L=(1, 3), K=(7,), budget=(7, 40))
        + grid(rows=("split",), L=(9,), K=(32, 100), budget=(64, 200)),
    ),
    _extremes,
)
