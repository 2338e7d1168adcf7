"""Tree shapes against mask word edges: 31, 32, 33 and 63, 64, 65 nodes of every kind of tree."""

from __future__ import annotations

from collections.abc import Iterator

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import TREES, tree_sees
from harness.cases.blocks.attention.requests import Request, build
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.plans import tiers
from harness.draw import Draw

NODES = (1, 2, 5, 17, 31, 32, 33, 63, 64, 65)
ROWS = ("gqa1x1d64v64", "mla1", "gqa4x2d32v32", "gqa2x2d16v32", "gqa1x1d128v64", "mla1", "gqa2x1d64v64")
PREFIX = (18, 40, 0, 70, 9, 130, 33, 5)
PAGES = (16, 64, 7, 1, 33)


def _smoke() -> Iterator[Params]:
    for tree, rows, prefix in (
        ("chain", "gqa1x1d32v16", 9), ("star", "gqa2x2d16v16", 18), ("best", "mla1", 5),
        ("comb", "gqa1x1d16v16", 40),
    ):  # fmt: skip
        yield {"tree": tree, "rows": rows, "N": 5, "P": prefix, "S": 16}
    yield {"tree": "best", "rows": "gqa1x1d16v16", "N": 33, "P": 18, "S": 16}


def _standard() -> Iterator[Params]:
    for i, nodes in enumerate(NODES):
        for k, tree in enumerate(TREES):
            if (nodes == 1 and k > 1) or (nodes == 2 and k > 2):
                continue  # the same tree by another name
            n = i * len(TREES) + k
            yield {
                "tree": tree,
                "rows": ROWS[n % len(ROWS)],
                "N": nodes,
                "P": PREFIX[(n + i) % len(PREFIX)],
                "S": PAGES[n % len(PAGES)],
            }


def _make(params: Params, draw: Draw) -> Draft:
    nodes = int(params["N"])
    request = Request(int(params["P"]), tree_sees(draw, str(params["tree"]), nodes))
    return build(
        draw, rows_named(str(params["rows"])), [request], nodes, int(params["S"]), flags=["tree_shape"]
    )


TREE_SHAPES = Family(
    "trees",
    "verify_attn",
    "chains, stars, combs, binary, random and best-first trees at the edges of mask words",
    tiers(_smoke(), _standard()),
    _make,
)
