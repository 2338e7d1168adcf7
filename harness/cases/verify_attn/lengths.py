"""Prefix lengths around every tile and page edge, over row layouts, head counts and page sizes."""

from __future__ import annotations

from collections.abc import Iterator

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import tree_sees
from harness.cases.blocks.attention.requests import Request, build
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.plans import tiers
from harness.draw import Draw

EDGES = (0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 300)
PAGES = (16, 64, 1, 7, 33, 256, 3)
ROWS = (
    "mla1", "gqa1x1d16v16", "mla2", "gqa4x2d64v64", "mla1", "gqa8x2d32v64", "mla2", "gqa2x2d128v128",
    "gqa8x8d16v16", "mla1", "gqa4x1d64v32", "mla4", "gqa2x1d80v48",
)  # fmt: skip
NODES = (5, 17, 2, 9, 17, 33, 8)
TREES = ("best", "random", "binary", "comb", "best")


SMOKE = (
    (0, "mla1", 16), (1, "gqa2x1d16v16", 1), (17, "mla1", 16), (33, "gqa4x2d16v16", 7), (64, "mla1", 64),
    (257, "gqa1x1d32v16", 256),
)  # fmt: skip


def _smoke() -> Iterator[Params]:
    for prefix, rows, pages in SMOKE:
        yield {"rows": rows, "P": prefix, "N": 5, "S": pages, "tree": "random"}


def _standard() -> Iterator[Params]:
    for i in range(5 * len(EDGES)):
        yield {
            "rows": ROWS[i % len(ROWS)],
            "P": EDGES[i % len(EDGES)],
            "N": NODES[(i + i // len(EDGES)) % len(NODES)],
            "S": PAGES[(i + i // len(EDGES)) % len(PAGES)],
            "tree": TREES[(i // 2) % len(TREES)],
        }


def _make(params: Params, draw: Draw) -> Draft:
    nodes, pages = int(params["N"]), int(params["S"])
    request = Request(int(params["P"]), tree_sees(draw, str(params["tree"]), nodes))
    return build(draw, rows_named(str(params["rows"])), [request], nodes, pages, flags=["length_edge"])


LENGTHS = Family(
    "lengths",
    "verify_attn",
    "one request, prefix lengths at and around 16, 32, 64, 128, 256 and page edges",
    tiers(_smoke(), _standard()),
    _make,
)
