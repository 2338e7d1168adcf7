"""tree_build, the bulk: rows on the 2^-20 grid, small batches of different trees, sizes at word edges."""

from __future__ import annotations

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.topk import GRID_KINDS, build_inputs, grid_rows
from harness.draw import Draw

EDGES = (31, 32, 33, 63, 64, 65, 127, 128, 129)
WIDE_EDGES = (257, 513, 1025)


def _grid(params: Params, draw: Draw) -> Draft:
    batch, depth, width = int(params["B"]), int(params["L"]), int(params["K"])
    rows = grid_rows(draw, (batch, depth, width), str(params["rows"]))
    flags = ("ragged_batch",) if batch > 1 else ()
    return Draft(build_inputs(draw, rows), {"budget": int(params["budget"])}, ("best_first", *flags))


def _edge(params: Params, draw: Draw) -> Draft:
    """N at a 32-bit word edge; depth 15 and 8 candidates fill any of these trees."""
    rows = grid_rows(draw, (int(params["B"]), 15, 8), str(params["rows"]))
    return Draft(build_inputs(draw, rows), {"budget": int(params["N"]) - 1}, ("word_edge",))


GRID = Family(
    "grid",
    "tree_build",
    "Trees of ordinary shapes from rows of every temper; all sums are exact.",
    tiers(
        grid(L=(4,), K=(4,), budget=(22,), rows=GRID_KINDS[:4], B=(2,)),
        grid(L=(2, 4, 7, 15, 31), K=(2, 4, 8, 16), budget=(8, 22, 64), rows=GRID_KINDS, B=(2,)),
        grid(L=(7, 15), K=(64, 128), budget=(256, 512, 1024), rows=GRID_KINDS, B=(1, 8, 32)),
    ),
    _grid,
)

WORD_EDGE = Family(
    "word_edge",
    "tree_build",
    "N one below, at and one above a multiple of 32, where a packed mask row gains a word.",
    tiers(
        grid(N=(31, 32, 33, 65), rows=("even",), B=(1,)),
        [
            *grid(N=EDGES, rows=("even", "decisive", "mixed"), B=(1, 2)),
            *grid(N=WIDE_EDGES, rows=("even", "decisive"), B=(1,)),
        ],
        grid(N=(*WIDE_EDGES, 511, 512, 1023, 1024), rows=GRID_KINDS, B=(1, 4)),
    ),
    _edge,
)
