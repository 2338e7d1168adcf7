"""tree_build: fewer candidates than the budget asks for, and shapes with one way to be wrong."""

from __future__ import annotations

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.short_rows import CUTS, cut
from harness.cases.blocks.topk import build_inputs, grid_rows
from harness.draw import Draw


def _no_candidate(params: Params, draw: Draw) -> Draft:
    kind = str(params["cut"])
    rows = cut(draw, grid_rows(draw, (int(params["L"]), int(params["K"])), "even"), kind)
    flags = {"first_level": ("root_only",), "single": ("chain",)}.get(kind, ())
    return Draft(build_inputs(draw, rows[None]), {"budget": int(params["budget"])}, ("no_candidate", *flags))


def _shape(params: Params, draw: Draw) -> Draft:
    depth, width, budget = int(params["L"]), int(params["K"]), int(params["budget"])
    rows = grid_rows(draw, (1, depth, width), "even")
    flags = {
        "root_only": budget == 0,
        "chain": width == 1 and budget > 0,
        "star": depth == 1 and width > 1 and budget > 1,
        "deepest": depth == 32,
        "many_candidates": width >= 100,
        "short_tree": budget > sum(width**d for d in range(1, depth + 1)),
    }
    chosen = tuple(flag for flag, holds in flags.items() if holds) or ("best_first",)
    return Draft(build_inputs(draw, rows), {"budget": budget}, chosen)


NO_CANDIDATE = Family(
    "no_candidate",
    "tree_build",
    "Rows that end in -inf, whole levels of it, and a first level without any candidate.",
    tiers(
        grid(cut=CUTS[:3], L=(4,), K=(4,), budget=(20,)),
        grid(cut=CUTS, L=(2, 5, 9), K=(3, 8), budget=(12, 40)),
    ),
    _no_candidate,
)

SHAPES = Family(
    "shapes",
    "tree_build",
    "Budget 0, chains (K 1), stars (L 1), depth 32, 1,024 candidates, and fewer nodes than the budget.",
    tiers(
        [
            *grid(L=(3,), K=(4,), budget=(0,)),
            *grid(L=(5,), K=(1,), budget=(5,)),
            *grid(L=(1,), K=(8,), budget=(6,)),
            *grid(L=(32,), K=(2,), budget=(48,)),
            *grid(L=(2,), K=(2,), budget=(9,)),
        ],
        [
            *grid(L=(1, 15, 32), K=(1, 8, 1024), budget=(0, 1, 2)),
            *grid(L=(1, 2, 5, 15, 16, 31, 32), K=(1,), budget=(4, 16, 40)),
            *grid(L=(1,), K=(2, 3, 4, 31, 32, 33, 64, 100, 1024), budget=(3, 33, 64)),
            *grid(L=(32,), K=(3, 8), budget=(33, 64)),
            *grid(L=(2, 3), K=(2, 3), budget=(11, 14, 39, 40)),
            *grid(L=(7, 15), K=(100, 1024), budget=(64,)),
            *grid(L=(1, 15), K=(1024,), budget=(1024,)),
        ],
        grid(L=(1, 2, 31, 32), K=(512, 1023, 1024), budget=(512, 1024)),
    ),
    _shape,
)
