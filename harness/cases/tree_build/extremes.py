"""tree_build: valid log-probs of every magnitude, from the smallest float32 below 0 to the largest."""

from __future__ import annotations

import numpy as np

from harness.case import AnyArray
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.topk import build_inputs, descending
from harness.draw import Draw

# Bit patterns of negative floats: subnormal, smallest normal, near 1, below -1000, below -1e30, largest.
PATTERNS = (0x80000001, 0x80000400, 0x80800000, 0xBF800001, 0xC47A8000, 0xF149F2CA, 0xFF7FFFFF)


def _extremes(params: Params, draw: Draw) -> Draft:
    """Rows of ``K`` values picked from `PATTERNS`; ``all``: one of each, so that each enters the tree."""
    batch, depth, width = 2, int(params["L"]), int(params["K"])
    values = np.array(PATTERNS, np.uint32).view(np.float32)
    rows: AnyArray = values[draw.below(len(PATTERNS), (batch, depth, width))]
    if params["rows"] == "all":
        rows = np.broadcast_to(values[:width], (batch, depth, width))
    inputs = build_inputs(draw, np.ascontiguousarray(descending(rows)))
    return Draft(inputs, {"budget": int(params["budget"])}, ("every_magnitude",))


EXTREMES = Family(
    "extremes",
    "tree_build",
    "Subnormal and huge log-probs are as good as any other; only -inf is none.",
    tiers(
        grid(rows=("all",), L=(2,), K=(7,), budget=(16,)),
        grid(rows=("all", "mixed"), L=(1, 3), K=(7,), budget=(7, 40)),
    ),
    _extremes,
)
