"""kv_commit: pages so far apart that offsets pass 2^31 and 2^32 bytes."""

from __future__ import annotations

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.far_pages import far_stride, pool_pages, use_last
from harness.cases.blocks.plans import grid, tiers
from harness.cases.kv_commit.moves import commit_inputs, path
from harness.draw import Draw
from harness.shapes import PAGE_STRIDE


def _make(params: Params, draw: Draw) -> Draft:
    """Rows of ``R`` bytes; the strides are in bytes here."""
    moves = [path(draw, str(params["moves"]), 14), path(draw, "chained", 14)]
    inputs = commit_inputs(
        draw, moves, [11, 3], 14, row_bytes=int(params["R"]), page_slots=int(params["S"]), layers=1
    )
    table = inputs["block_table"]
    assert isinstance(table, np.ndarray)
    pages = pool_pages(inputs)
    use_last(table, pages, 12 // int(params["S"]))  # where the first row goes that moves
    stride = far_stride(pages, int(params["bits"]))
    return Draft(inputs, {PAGE_STRIDE: stride}, ("far_pool", "page_border"))


FAR_PAGES = Family(
    "far_pages",
    "kv_commit",
    "Pages so far apart that the last one starts past 2^31 or 2^32 bytes.",
    tiers(
        grid(moves=("gaps",), R=(24,), S=(4,), bits=(32,)),
        grid(moves=("gaps", "shifted"), R=(24, 1152), S=(4, 7, 16), bits=(31, 32)),
    ),
    _make,
)
