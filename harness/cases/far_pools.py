"""Pools whose pages lie far apart, so that offsets pass 2^31 and 2^32 while the pool itself is small.

The inputs are ordinary. The scalar ``page_stride`` asks for the layout where memory is laid out (the C ABI's
strides); a target that gets plain arrays sees a plain pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.case import Value
from harness.cases.attention_base import Request, build
from harness.cases.attention_masks import tree_sees
from harness.cases.attention_rows import rows_named
from harness.cases.base import Draft, Family, Params
from harness.cases.commit_moves import commit_inputs, path
from harness.cases.plans import grid, tiers
from harness.draw import Draw
from harness.shapes import PAGE_STRIDE, shape_of

_ALIGN = 4096
# rows, nodes, prefix, page slots, bits of the largest offset in elements
_ATTENTION = (
    ("gqa1x1d16v16", 5, 9, 4, 31),
    ("mla1", 9, 20, 16, 31), ("mla2", 17, 33, 7, 32), ("mla1", 5, 100, 16, 32), ("mla4", 33, 64, 64, 31),
    ("gqa4x2d32v32", 17, 40, 16, 32), ("gqa2x2d64v64", 9, 33, 16, 31), ("gqa8x2d64v64", 17, 70, 33, 32),
    ("gqa1x1d128v128", 5, 130, 1, 32), ("gqa2x1d16v32", 33, 0, 7, 31),
)  # fmt: skip


def far_stride(pages: int, bits: int) -> int:
    """The smallest aligned stride at which the last of ``pages`` pages starts past 2^bits."""
    return ((1 << bits) // max(pages - 1, 1) // _ALIGN + 1) * _ALIGN


def use_last(table: npt.NDArray[np.int32], pages: int, entry: int = 0) -> int:
    """Exchange pages, in place, so that entry ``entry`` of request 0 is the last page of the pool."""
    first, last = int(table[0, entry]), pages - 1
    one, other = table == first, table == last
    table[one], table[other] = last, first
    return pages


def _attention_params(shapes: tuple[tuple[str, int, int, int, int], ...]) -> Iterator[Params]:
    for rows, nodes, prefix, pages, bits in shapes:
        yield {"rows": rows, "N": nodes, "P": prefix, "S": pages, "bits": bits}


def _attention(params: Params, draw: Draw) -> Draft:
    nodes, rows = int(params["N"]), rows_named(str(params["rows"]))
    requests = [
        Request(int(params["P"]), tree_sees(draw, "random", nodes)),
        Request(5, tree_sees(draw, "comb", max(nodes // 2, 2))),
    ]
    draft = build(draw, rows, requests, nodes, int(params["S"]), flags=["far_pool"], arrange=use_last)
    pages = _pages(draft.inputs)
    return replace(draft, scalars={**draft.scalars, PAGE_STRIDE: far_stride(pages, int(params["bits"]))})


def _pages(inputs: Mapping[str, Value]) -> int:
    return shape_of(inputs["kv"])[-3]


def _commit(params: Params, draw: Draw) -> Draft:
    """Rows of ``R`` bytes; the strides are in bytes here."""
    moves = [path(draw, str(params["moves"]), 14), path(draw, "chained", 14)]
    inputs = commit_inputs(
        draw, moves, [11, 3], 14, row_bytes=int(params["R"]), page_slots=int(params["S"]), layers=1
    )
    table = inputs["block_table"]
    assert isinstance(table, np.ndarray)
    pages = _pages(inputs)
    use_last(table, pages, 12 // int(params["S"]))  # where the first row goes that moves
    stride = far_stride(pages, int(params["bits"]))
    return Draft(inputs, {PAGE_STRIDE: stride}, ("far_pool", "page_border"))


FAR_ATTENTION = Family(
    "far_pages",
    "verify_attn",
    "pages so far apart that the last one starts past 2^31 or 2^32 elements",
    tiers(_attention_params(_ATTENTION[:1]), _attention_params(_ATTENTION[1:])),
    _attention,
)

FAR_COMMIT = Family(
    "far_pages",
    "kv_commit",
    "Pages so far apart that the last one starts past 2^31 or 2^32 bytes.",
    tiers(
        grid(moves=("gaps",), R=(24,), S=(4,), bits=(32,)),
        grid(moves=("gaps", "shifted"), R=(24, 1152), S=(4, 7, 16), bits=(31, 32)),
    ),
    _commit,
)
