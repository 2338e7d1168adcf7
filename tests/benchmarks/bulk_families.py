"""A catalogue of tree cases at draft depth 15, 64 candidates and budget 64. Worker processes import it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.shapes import follow
from harness.cases.blocks.topk import build_inputs, grid_rows
from harness.cases.blocks.walks import Walk, accept_inputs
from harness.draw import Draw
from harness.stacked import Asked, Asking

SHAPE, BUDGET = (1, 15, 64), 64
CASES = {"smoke": 32, "standard": 2048}  # of each kernel


def _plan(suite: str) -> Iterator[Params]:
    for i in range(CASES[suite]):
        yield {"rows": "even", "i": i}


def _build(params: Params, draw: Draw) -> Draft:
    rows = grid_rows(draw, SHAPE, str(params["rows"]))
    return Draft(build_inputs(draw, rows), {"budget": BUDGET}, ("best_first",))


def _accept(params: Params, draw: Draw) -> Asking[Draft]:
    rows = _build(params, draw)
    tree = yield Asked("tree_build", rows.inputs, rows.scalars)
    token, parents, child, sibling = (
        tree[name][0].astype(np.int64) for name in ("node_token", "node_parent", "next_token", "next_sibling")
    )
    one = Walk(parents, token, follow(draw, parents, token, 90), child, sibling)
    return Draft(accept_inputs([one], BUDGET + 1), {"depth_limit": SHAPE[1]}, ("walk",))


FAMILIES = (
    Family("bulk", "tree_build", "Trees from random rows.", _plan, _build),
    Family("bulk", "tree_accept", "Walks on such trees.", _plan, _accept),
)
