"""tree_build: batches of different trees, with inactive requests and with bad rows next to good ones."""

from __future__ import annotations

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.places import PLACES, place
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.short_rows import CUTS, cut
from harness.cases.blocks.topk import F32, build_inputs, grid_rows
from harness.draw import Draw

BAD_KINDS = ("nan", "minus_nan", "least_positive", "positive", "inf", "unsorted", "gap")
BAD_SPOTS = ("first", "last", "unreached")


def _ragged(params: Params, draw: Draw) -> Draft:
    """Every request with its own temper and its own number of candidates: live sizes differ."""
    batch = int(params["B"])
    rows = grid_rows(draw, (batch, 5, 6), "mixed")
    for b in range(1, batch):  # the first is whole, the last a chain
        rows[b] = cut(draw, rows[b], "single" if b == batch - 1 else draw.choice(CUTS))
    return Draft(build_inputs(draw, rows), {"budget": int(params["budget"])}, ("ragged_batch", "short_tree"))


def spoil(rows: F32, kind: str, spot: str) -> None:
    """Make ``rows`` [L,K] bad in place.

    ``first``: at depth 1. ``last``: the last value of the last row. ``unreached``: in the last row, which no
    node of a small budget needs.
    """
    depth, width = rows.shape
    level, rank = {"first": (0, 0), "last": (depth - 1, width - 1), "unreached": (depth - 1, width // 2)}[
        spot
    ]
    bits = rows.view(np.uint32)
    if kind == "nan":
        bits[level, rank] = 0x7FC00000
    elif kind == "minus_nan":
        bits[level, rank] = 0xFFC00001
    elif kind == "least_positive":
        rows[level, : rank + 1] = 0
        bits[level, 0 if spot == "first" else rank] = 1
    elif kind == "positive":
        rows[level, rank] = 0.5
    elif kind == "inf":
        rows[level, rank] = np.inf
    elif kind == "unsorted":
        rank = max(rank, 1)
        rows[level, rank - 1 : rank + 1] = -9, np.nextafter(np.float32(-9), np.float32(0))
        rows[level, rank + 1 :] = -10
    else:  # a finite value behind a -inf
        rank = max(rank, 1)
        rows[level, rank - 1] = -np.inf


def _invalid(params: Params, draw: Draw) -> Draft:
    rows = grid_rows(draw, (3, 6, 5), "even")
    kind = str(params["bad"])
    spoil(rows[place(str(params["at"]), 3)], kind, str(params["spot"]))
    flags = ["bad_rows", "neighbours_good"]
    flags += ["nan"] if "nan" in kind else []
    flags += ["unsorted"] if kind in ("unsorted", "gap") else []
    flags += ["unreached"] if params["spot"] != "first" else []
    return Draft(build_inputs(draw, rows), {"budget": int(params["budget"])}, tuple(flags), "invalid")


def _inactive(params: Params, draw: Draw) -> Draft:
    """``at``: which of ``B`` requests sleep; ``all_but_last`` leaves one, ``all`` none."""
    batch, at, kind = int(params["B"]), str(params["at"]), str(params["rows"])
    rows = grid_rows(draw, (batch, 4, 4), "even")
    sleeping = list(range(batch))[: {"all": batch, "all_but_last": batch - 1}.get(at, 0)]
    sleeping = sleeping or [place(at, batch)]
    root = draw.below(1000, batch).astype(np.int32)
    root[sleeping] = -1
    prefix = draw.below(1000, batch).astype(np.int32)
    for b in sleeping:
        if kind != "good":
            spoil(rows[b], kind, "first" if kind == "nan" else "last")
    flags = ("inactive", *(("bad_rows",) if kind != "good" else ()), *(("empty",) if at == "all" else ()))
    inputs = build_inputs(draw, rows, root_token=root, prefix_len=prefix)
    return Draft(inputs, {"budget": int(params["budget"])}, flags)


RAGGED = Family(
    "ragged",
    "tree_build",
    "Batches in which every request has another tree and another live size.",
    tiers(
        grid(B=(3,), budget=(20,), i=(0,)),
        [
            *grid(B=(2, 4, 8), budget=(7, 20, 33, 64), i=(0, 1)),
            *grid(B=(16, 32), budget=(7, 20, 33), i=(0, 1)),
        ],
        grid(B=(32, 64, 128), budget=(64, 256), i=(0, 1)),
    ),
    _ragged,
)

INACTIVE = Family(
    "inactive",
    "tree_build",
    "Padding requests (root_token -1) at every place of the batch, some with bad rows: nothing is built.",
    tiers(
        grid(at=("first", "last"), B=(3,), rows=("nan",), budget=(9,)),
        grid(at=(*PLACES, "all_but_last", "all"), B=(3, 8), rows=("good", "nan", "unsorted"), budget=(9, 33)),
    ),
    _inactive,
)

INVALID = Family(
    "invalid",
    "tree_build",
    "NaN, positive or unsorted values between good requests: status 1, root only, others unharmed.",
    tiers(
        grid(bad=("nan", "positive", "unsorted", "gap"), spot=("last",), at=("middle",), budget=(9,)),
        grid(bad=BAD_KINDS, spot=BAD_SPOTS, at=PLACES, budget=(9,)),
    ),
    _invalid,
)
