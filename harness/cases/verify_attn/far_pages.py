"""verify_attn: pages so far apart that offsets pass 2^31 and 2^32 elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import tree_sees
from harness.cases.blocks.attention.requests import Request, build
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.far_pages import far_stride, pool_pages, use_last
from harness.cases.blocks.plans import tiers
from harness.draw import Draw
from harness.shapes import PAGE_STRIDE

# rows, nodes, prefix, page slots, bits of the largest offset in elements
SHAPES = (
    ("gqa1x1d16v16", 5, 9, 4, 31),
    ("mla1", 9, 20, 16, 31), ("mla2", 17, 33, 7, 32), ("mla1", 5, 100, 16, 32), ("mla4", 33, 64, 64, 31),
    ("gqa4x2d32v32", 17, 40, 16, 32), ("gqa2x2d64v64", 9, 33, 16, 31), ("gqa8x2d64v64", 17, 70, 33, 32),
    ("gqa1x1d128v128", 5, 130, 1, 32), ("gqa2x1d16v32", 33, 0, 7, 31),
)  # fmt: skip


def _params(shapes: tuple[tuple[str, int, int, int, int], ...]) -> Iterator[Params]:
    for rows, nodes, prefix, pages, bits in shapes:
        yield {"rows": rows, "N": nodes, "P": prefix, "S": pages, "bits": bits}


def _make(params: Params, draw: Draw) -> Draft:
    nodes, rows = int(params["N"]), rows_named(str(params["rows"]))
    requests = [
        Request(int(params["P"]), tree_sees(draw, "random", nodes)),
        Request(5, tree_sees(draw, "comb", max(nodes // 2, 2))),
    ]
    draft = build(draw, rows, requests, nodes, int(params["S"]), flags=["far_pool"], arrange=use_last)
    pages = pool_pages(draft.inputs)
    return replace(draft, scalars={**draft.scalars, PAGE_STRIDE: far_stride(pages, int(params["bits"]))})


FAR_PAGES = Family(
    "far_pages",
    "verify_attn",
    "pages so far apart that the last one starts past 2^31 or 2^32 elements",
    tiers(_params(SHAPES[:1]), _params(SHAPES[1:])),
    _make,
)
