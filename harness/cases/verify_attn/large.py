"""Large trees and many heads; in the full suite long prefixes and the head counts of real models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import tree_sees
from harness.cases.blocks.attention.requests import Request, build
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.plans import tiers
from harness.draw import Draw

# rows, nodes, prefix, page slots, tree. Expected values stay near 1 MB a case (mla: 4 KB a node and head).
STANDARD = (
    ("mla8", 33, 64, 64, "best"), ("mla4", 65, 128, 16, "best"), ("mla16", 17, 100, 64, "random"),
    ("mla3", 65, 33, 7, "best"), ("gqa8x2d64v64", 65, 300, 16, "best"),
    ("gqa8x8d32v32", 65, 257, 64, "binary"), ("gqa8x1d128v128", 65, 128, 33, "best"),
    ("gqa8x4d64v64", 65, 65, 1, "random"),
    ("gqa16x4d64v64", 33, 200, 16, "best"), ("gqa8x2d128v128", 65, 17, 256, "comb"),
    ("mla1", 129, 64, 64, "best"), ("gqa2x1d64v64", 128, 31, 16, "best"),
    ("gqa1x1d64v64", 129, 16, 7, "star"),
    ("gqa2x2d32v32", 257, 40, 64, "best"), ("mla1", 255, 0, 16, "best"),
    ("gqa1x1d64v64", 1025, 0, 16, "best"), ("gqa1x1d16v16", 1025, 0, 64, "random"),
    ("gqa1x1d32v32", 1025, 0, 7, "binary"), ("mla1", 1025, 0, 16, "best"),
)  # fmt: skip

FULL = (
    ("mla64", 4, 1024, 64, "best"), ("mla128", 2, 1000, 64, "best"), ("mla16", 16, 4096, 64, "best"),
    ("mla8", 33, 8192, 64, "best"), ("mla4", 65, 8191, 16, "best"), ("mla1", 257, 4097, 64, "best"),
    ("mla2", 129, 2048, 1, "random"), ("gqa64x8d128v128", 16, 2048, 16, "best"),
    ("gqa32x8d128v128", 33, 8192, 16, "best"), ("gqa8x1d128v128", 129, 4096, 64, "best"),
    ("gqa2x1d64v64", 1025, 1024, 16, "best"), ("gqa4x2d64v64", 257, 8000, 33, "best"),
    ("gqa1x1d64v64", 1025, 8192, 256, "random"), ("gqa64x64d32v32", 17, 1500, 16, "comb"),
    ("mla1", 256, 1023, 256, "binary"), ("mla32", 8, 8192, 64, "best"),
)  # fmt: skip


def _params(shapes: Iterable[tuple[str, int, int, int, str]]) -> Iterator[Params]:
    for rows, nodes, prefix, pages, tree in shapes:
        yield {"rows": rows, "N": nodes, "P": prefix, "S": pages, "tree": tree}


def _make(params: Params, draw: Draw) -> Draft:
    nodes = int(params["N"])
    request = Request(int(params["P"]), tree_sees(draw, str(params["tree"]), nodes))
    return build(
        draw, rows_named(str(params["rows"])), [request], nodes, int(params["S"]), flags=["large_shape"]
    )


LARGE = Family(
    "large",
    "verify_attn",
    "up to 1,025 nodes, 16 heads (128 in the full suite) and prefixes of 8,192",
    tiers((), _params(STANDARD), _params(FULL)),
    _make,
)
