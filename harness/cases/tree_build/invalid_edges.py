"""tree_build: bad rows at the edges: smallest and largest shapes, all-bad batches, NaN behind ends."""

from __future__ import annotations

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.topk import F32, build_inputs, grid_rows
from harness.cases.tree_build.batch import spoil
from harness.draw import Draw

NAN = np.float32(np.nan)
# kind: requests, levels, candidates, budget
ROWS = {
    "budget_0": (2, 3, 4, 0),  # the status does not wait for a tree
    "one_value": (2, 1, 1, 3),
    "one_candidate": (2, 6, 1, 4),
    "one_level": (2, 1, 9, 4),
    "behind_the_end": (2, 4, 6, 9),  # NaN after -inf
    "never_a_candidate": (2, 4, 6, 9),  # NaN in a level that the level before cuts off
    "nothing_else": (2, 4, 6, 9),
    "whole_batch": (3, 4, 6, 9),
    "far_lane": (2, 32, 1024, 9),
    "two_faults": (2, 4, 6, 9),
}


def _rows(params: Params, draw: Draw) -> Draft:
    """The first of the requests is bad, or all are."""
    kind = str(params["bad"])
    batch, depth, width, budget = ROWS[kind]
    rows = grid_rows(draw, (batch, depth, width), "even")
    _break(kind, rows)
    flags = ("bad_rows", *(() if kind == "whole_batch" else ("neighbours_good",)))
    return Draft(build_inputs(draw, rows), {"budget": budget}, flags, "invalid")


def _break(kind: str, rows: F32) -> None:
    bad = rows[0]
    if kind in ("budget_0", "one_value", "one_candidate", "far_lane"):
        bad[-1, -1] = NAN
    elif kind == "one_level":
        spoil(bad, "unsorted", "last")
    elif kind == "behind_the_end":
        bad[1, 2:] = -np.inf
        bad[1, -1] = NAN
    elif kind == "never_a_candidate":
        bad[1] = -np.inf
        bad[2, 3] = NAN
    elif kind == "nothing_else":
        bad[:] = NAN
    elif kind == "whole_batch":
        for b, what in enumerate(("nan", "positive", "unsorted")):
            spoil(rows[b], what, "last")
    else:
        spoil(bad, "unsorted", "first")
        spoil(bad, "minus_nan", "last")


BAD_ROWS = Family(
    "invalid_edges",
    "tree_build",
    "Bad values with budget 0, in rows of one, behind -inf, in lane 1,023 of 32 levels, in every request.",
    tiers((), grid(bad=tuple(ROWS))),
    _rows,
)
