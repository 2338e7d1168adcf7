"""Batches: different trees and lengths, inactive and padded requests, duplicates, shared and high pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import TREES, Sees, tree_sees
from harness.cases.blocks.attention.queries import Ints, lean
from harness.cases.blocks.attention.requests import Keys, Query, Request, Slots, build
from harness.cases.blocks.attention.rows import Rows, rows_named
from harness.cases.blocks.plans import tiers
from harness.draw import Draw

KINDS = ("ragged", "inactive", "twins", "permuted", "shared", "high")  # and "empty"
ROWS = ("mla1", "gqa2x1d64v64", "gqa4x2d32v32", "mla2", "gqa1x1d16v16", "gqa8x2d32v32", "gqa2x2d128v64")
NODES = (5, 17, 9, 33, 17, 12)
PAGES = (16, 7, 64, 1, 33, 16, 5)
NOBODY: Sees = np.zeros((0, 0), np.bool_)
LENGTHS = (0, 1, 6, 15, 16, 17, 31, 33, 48, 64, 65, 100, 129)


def _smoke() -> Iterator[Params]:
    for kind, rows in (
        ("ragged", "gqa2x1d16v16"), ("inactive", "gqa1x1d16v16"), ("twins", "gqa1x1d16v16"),
        ("high", "mla1"),
    ):  # fmt: skip
        yield {"kind": kind, "rows": rows, "B": 3 if kind != "high" else 1, "N": 5, "S": 16}


def _standard() -> Iterator[Params]:
    for i in range(66):
        kind = KINDS[i % len(KINDS)]
        yield {
            "kind": kind,
            "rows": ROWS[i % len(ROWS)],
            "B": 1 + i // len(KINDS) % 3 if kind == "high" else 2 + i // len(KINDS) % 3,
            "N": NODES[(i // 2) % len(NODES)],
            "S": PAGES[(i // 3) % len(PAGES)],
            "v": i // len(KINDS),
        }
    for rows in ("mla1", "gqa4x2d32v32"):
        yield {"kind": "empty", "rows": rows, "B": 2, "N": 5, "S": 16}


def _make(params: Params, draw: Draw) -> Draft:
    kind, batch, nodes, pages = str(params["kind"]), int(params["B"]), int(params["N"]), int(params["S"])
    rows = rows_named(str(params["rows"]))
    if kind in ("twins", "permuted"):
        return _copies(draw, rows, kind, batch, nodes, pages)
    if kind == "empty":
        return build(draw, rows, [Request(7 * b, NOBODY) for b in range(batch)], nodes, pages)
    requests = [_drawn(draw, nodes, full=b == 0) for b in range(batch)]
    if kind == "ragged":
        requests[draw.integer(0, batch - 1)] = Request(0, _tree(draw, max(nodes - 2, 2)))
        return build(draw, rows, requests, nodes, pages, flags=["ragged_batch"])
    if kind == "inactive":
        for b in draw.distinct(batch, max(1, batch // 2)).tolist():
            requests[b] = Request(requests[b].prefix, NOBODY)
        return build(draw, rows, requests, nodes, pages, flags=["ragged_batch"])
    if kind == "shared":
        long = [Request(max(r.prefix, 2 * pages) % (8 * pages + 40), r.sees) for r in requests]
        return build(draw, rows, long, nodes, pages, flags=["shared_pages"], shared=2)
    return build(draw, rows, requests, nodes, pages, flags=["high_pages"], arrange=_move_up)


def _drawn(draw: Draw, nodes: int, *, full: bool = False) -> Request:
    live = nodes if full else draw.integer(max(2, nodes // 3), nodes)
    return Request(draw.choice(LENGTHS), _tree(draw, live))


def _tree(draw: Draw, nodes: int) -> Sees:
    return tree_sees(draw, draw.choice(TREES), nodes)


def _move_up(table: npt.NDArray[np.int32], pages: int) -> int:
    """Every page of the pool moves behind as many that nobody uses; the short prefix lies high."""
    inside = (table >= 0) & (table < pages)
    table[inside] += 3 * pages
    return 4 * pages


def _copies(draw: Draw, rows: Rows, kind: str, batch: int, nodes: int, pages: int) -> Draft:
    """The same requests twice in other pages: first and last alike, or the batch again in another order."""
    originals = [_short(draw, nodes) for _ in range(batch)]
    if kind == "twins":
        order = [*range(batch), 0]
    else:
        order = [*range(batch), *((int(i) + 1) % batch for i in range(batch))]
    made: dict[int, Ints] = {}
    scale = rows.scale
    calls = iter(order)

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        original = next(calls)
        if original not in made:
            made[original] = lean(draw, keys.prefix, keys.tail, keys.mark, request.sees, rows.Hq, scale)
        return made[original]

    def patch(flat: AnyArray, slots: list[Slots]) -> None:
        for b in range(batch, len(order)):
            flat[slots[b].prefix] = flat[slots[order[b]].prefix]
            flat[slots[b].tail] = flat[slots[order[b]].tail]

    asks: Query = query
    return build(
        draw, rows, [originals[i] for i in order], nodes, pages, flags=["same_twice"], patch=patch, query=asks
    )


def _short(draw: Draw, nodes: int) -> Request:
    return Request(draw.integer(0, 40), _tree(draw, draw.integer(max(2, nodes // 3), nodes)))


BATCHES = Family(
    "batches",
    "verify_attn",
    "ragged batches: other trees, lengths, live counts and pages for every request",
    tiers(_smoke(), _standard()),
    _make,
)
