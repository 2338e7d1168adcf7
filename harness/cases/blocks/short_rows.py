"""Candidate rows that end early: fewer candidates than the row is wide."""

from __future__ import annotations

import numpy as np

from harness.cases.blocks.topk import F32
from harness.draw import Draw

CUTS = ("tails", "level", "first_level", "single", "first_only")


def cut(draw: Draw, rows: F32, kind: str) -> F32:
    """``rows`` [L,K] with -inf at the end of rows.

    ``tails``: a random number of candidates in each row, one or more. ``level``: none at one level past the
    first. ``first_level``: none at depth 1. ``single``: one in every row. ``first_only``: a whole first row,
    one in the others.
    """
    depth, width = rows.shape
    left = np.full(depth, width)
    if kind == "tails":
        left = 1 + draw.below(width, depth)
    elif kind == "level":
        left[draw.integer(min(1, depth - 1), depth - 1)] = 0
    elif kind == "first_level":
        left[0] = 0
    elif kind == "single":
        left[:] = 1
    else:
        left[1:] = 1
    return np.where(np.arange(width) < left[:, None], rows, np.float32(-np.inf))
