"""tree_build: rows that tell float64 sums of log-probs from every cheaper way to keep a score."""

from __future__ import annotations

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.topk import F32, UNIT, build_inputs, off_grid_rows, scaled
from harness.draw import Draw


def _off_grid(params: Params, draw: Draw) -> Draft:
    rows = off_grid_rows(draw, (2, int(params["L"]), int(params["K"])))
    return Draft(build_inputs(draw, rows), {"budget": int(params["budget"])}, ("off_grid",))


def rounding_rows(draw: Draw, width: int, bits: int, lead: int) -> F32:
    """Two fine rows and a flat one, float32 [lead+3,K].

    The fine rows are ``r * 2^-bits`` and ``r * 2^(8-bits)`` times small factors, the flat one is a value
    between -1 and -2. Rounded sums lose the fine parts below it, so nodes tie whose parents do not: their
    order is by rank tuple (depth 1 first), that of the parents by the second row. ``lead`` rows of one
    candidate with log-prob 0 stand in front.
    """
    ranks = np.arange(width)
    fine = scaled(ranks * draw.integer(1, 15), -bits)
    finer = scaled(ranks * draw.integer(16, 31), 4 - bits)
    flat = scaled(np.full(width, draw.integer(4, 7)), -2)
    first = np.full((lead, width), -np.inf, np.float32)
    first[:, 0] = 0
    return np.concatenate([first, np.stack([fine, finer, flat])])


def _rounding(params: Params, draw: Draw) -> Draft:
    bits, width = int(params["bits"]), int(params["K"])
    rows = rounding_rows(draw, width, bits, int(params["lead"]))
    budget = width * (width + 4)  # all nodes of the two fine levels and three families below them
    flags = ("sums_round", "rank_cap") if bits > 64 else ("float32_sums",)
    return Draft(
        build_inputs(draw, rows[None]), {"budget": budget + int(params["lead"])}, ("off_grid", *flags)
    )


def _difference(params: Params, draw: Draw) -> Draft:
    """Nodes (1,1) and (2) tie if a sibling's score is the last one minus one log-prob plus the next.

    With d just above 2^-52: (1,1) sums to -d - 2, which rounds to -2 - 2^-51, but -d - 1 + 1 - 2 rounds to
    -2, the score of (2). All values times a power of two; ``lead`` rows of one candidate stand in front.
    """
    lead, extra = int(params["lead"]), draw.integer(1, 8)
    power = draw.integer(-20, 2)
    first = np.full((lead, 4), -np.inf, np.float32)
    first[:, 0] = 0
    coarse = scaled(np.array([[0, 0, 2, 3], [1, 2, 3, 4]]), power)
    coarse[0, 1] = scaled(np.array((1 << 20) + extra), power - 72)
    rows = np.concatenate([first, coarse])[None]
    flags = ("off_grid", "sums_round", "running_difference")
    return Draft(build_inputs(draw, rows), {"budget": lead + int(params["budget"])}, flags)


def _tiny(params: Params, draw: Draw) -> Draft:
    """A chain of probabilities near 1e-6, long enough to underflow float32, then levels with a choice."""
    depth, width, chain = int(params["L"]), int(params["K"]), 8
    steps = 14 * UNIT + np.sort(draw.below(UNIT, (depth, width)), axis=-1)
    steps[chain:] -= 12 * UNIT
    rows = scaled(steps, -20)
    rows[:chain, 1:] = -np.inf
    return Draft(
        build_inputs(draw, rows[None]), {"budget": chain + int(params["extra"])}, ("probability_product",)
    )


OFF_GRID = Family(
    "off_grid",
    "tree_build",
    "Random float32 values, not multiples of 2^-20: fixed-point keys do not hold, float64 sums are exact.",
    tiers(
        grid(L=(5,), K=(8,), budget=(24,), i=(0,)),
        grid(L=(3, 7, 15), K=(4, 16, 64), budget=(16, 64), i=(0, 1)),
    ),
    _off_grid,
)

ROUNDING = Family(
    "rounding",
    "tree_build",
    "Very peaked rows whose sums tie by rounding: in float32 (bits 40) or even in float64 (bits 80).",
    tiers(
        grid(bits=(40, 80), K=(8,), lead=(0,), i=(0,)),
        grid(bits=(40, 80), K=(5, 6, 8), lead=(0, 1, 5), i=(0, 1, 2)),
    ),
    _rounding,
)

DIFFERENCE = Family(
    "difference",
    "tree_build",
    "Rows on which a running difference rounds otherwise than the sum from the root: other nodes tie.",
    tiers(
        grid(lead=(0,), budget=(7,), i=(0,)),
        grid(lead=(0, 1, 5), budget=(7, 12), i=(0, 1)),
    ),
    _difference,
)

TINY = Family(
    "tiny",
    "tree_build",
    "Paths of probability below 1e-48: a product in float32 is 0 and orders nothing.",
    tiers(
        grid(L=(10,), K=(3,), extra=(9,), i=(0,)),
        grid(L=(10, 16, 32), K=(2, 3), extra=(9, 25), i=(0, 1)),
    ),
    _tiny,
)
