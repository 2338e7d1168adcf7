"""The families of tree_build, one idea a file. To add one: write the file, list its family here."""

from __future__ import annotations

from harness.cases.base import Family
from harness.cases.tree_build import (
    batch,
    extremes,
    grid,
    invalid_edges,
    precision,
    related,
    short,
    ties,
    values,
)

FAMILIES: tuple[Family, ...] = (
    grid.GRID,
    grid.WORD_EDGE,
    ties.BF16_TIES,
    ties.ALL_EQUAL,
    precision.OFF_GRID,
    precision.ROUNDING,
    precision.DIFFERENCE,
    precision.TINY,
    extremes.EXTREMES,
    short.NO_CANDIDATE,
    short.SHAPES,
    values.TOKENS,
    values.PREFIX,
    batch.RAGGED,
    batch.INACTIVE,
    batch.INVALID,
    invalid_edges.BAD_ROWS,
    related.RELATED,
)
