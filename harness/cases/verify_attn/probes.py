"""Leaks and misses: huge values that must not show, and rows that see one key, where it is easily skipped.

*Leak* kinds put +-2^60 into the values of every slot that some rows must not see; those rows must not feel
it. *Miss* kinds leave a row one key alone: the last of the last mask word, of the last page, of the prefix,
or another one for each row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.case import AnyArray
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import Sees, ancestors
from harness.cases.blocks.attention.queries import Ints, eight_bits, lean
from harness.cases.blocks.attention.requests import Keys, Patch, Query, Request, Slots, build
from harness.cases.blocks.attention.rows import Rows, rows_named
from harness.cases.blocks.plans import tiers
from harness.draw import Draw

HUGE = np.uint16(0x5D80)  # bf16 2^60
LEAKS = ("branch", "later", "others")
MISSES = ("last_word", "last_page", "each_other", "last_prefix")
ROWS = ("gqa2x1d32v32", "mla1", "gqa4x2d32v32", "gqa1x1d64v64", "mla2")
SIZES = ((17, 33, 16), (65, 20, 7), (33, 64, 1), (97, 0, 16), (40, 130, 33))  # nodes, prefix, page slots
EDGES = ((33, 16), (65, 7), (97, 16), (129, 64), (66, 5))  # nodes, page slots


def _smoke() -> Iterator[Params]:
    yield {"kind": "branch", "rows": "gqa1x1d16v16", "N": 9, "P": 5, "S": 4}
    yield {"kind": "each_other", "rows": "gqa1x1d16v16", "N": 9, "P": 0, "S": 4}
    yield {"kind": "last_word", "rows": "gqa1x1d16v16", "N": 33, "P": 0, "S": 16}


def _standard() -> Iterator[Params]:
    for k, kind in enumerate(LEAKS):
        for i, (nodes, prefix, pages) in enumerate(SIZES):
            rows = ROWS[(i + k) % len(ROWS)]
            yield {"kind": kind, "rows": rows, "N": nodes, "P": prefix, "S": pages}
    for k, kind in enumerate(MISSES[:3]):
        for i, (nodes, pages) in enumerate(EDGES):
            rows = ROWS[(i + 2 * k) % len(ROWS)]
            yield {"kind": kind, "rows": rows, "N": nodes, "P": 0, "S": pages}
    for i, (prefix, pages) in enumerate(((1, 1), (1, 16), (17, 16), (65, 64), (33, 1), (257, 16), (29, 7))):
        yield {"kind": "last_prefix", "rows": ROWS[i % len(ROWS)], "N": 5, "P": prefix, "S": pages}


def _make(params: Params, draw: Draw) -> Draft:
    kind, rows = str(params["kind"]), rows_named(str(params["rows"]))
    nodes, prefix, page_slots = (int(params[k]) for k in ("N", "P", "S"))
    if kind in LEAKS:
        return _leak(draw, rows, kind, nodes, prefix, page_slots)
    if kind == "last_prefix":
        sees = np.zeros((nodes, nodes), np.bool_)
        flags = ["last_key_only"] if prefix == 1 else ["last_key_only", "peaked"]
        query = None if prefix == 1 else _at_end(rows)
        return build(draw, rows, [Request(prefix, sees)], nodes, page_slots, flags=flags, query=query)
    return build(
        draw, rows, [Request(0, _only(draw, kind, nodes, page_slots))], nodes, page_slots,
        flags=["last_key_only" if kind != "each_other" else "one_key_each"],
    )  # fmt: skip


def _only(draw: Draw, kind: str, nodes: int, page_slots: int) -> Sees:
    """Each row sees one node: the last, any of the last page's, or each row another."""
    chosen = np.full(nodes, nodes - 1)
    if kind == "last_page":
        first = (nodes - 1) // page_slots * page_slots
        chosen = first + draw.below(nodes - first, nodes)
    elif kind == "each_other":
        chosen = draw.permutation(nodes)
    sees = np.zeros((nodes, nodes), np.bool_)
    sees[np.arange(nodes), chosen] = True
    return sees


def _leak(draw: Draw, rows: Rows, kind: str, nodes: int, prefix: int, page_slots: int) -> Draft:
    """``branch``: half of the tree is a branch of huge values. ``later``: so is every later leaf.

    ``others``: every value of the requests before and after is huge, prefix and tail.
    """
    first = nodes // 2
    parents = [-1, *(draw.integer(0, i - 1) for i in range(1, first))]
    if kind == "branch":  # nodes from `first` on hang below node `first`, a child of the root
        parents += [0, *(draw.integer(first, i - 1) for i in range(first + 1, nodes))]
    else:  # leaves that only they themselves see
        parents += [draw.integer(0, first - 1) for _ in range(first, nodes)]
    request = Request(prefix, ancestors(parents))
    requests = [request]
    if kind == "others":
        near = Request(max(prefix // 2, 3), ancestors(parents[:first]))
        requests = [near, request, near]

    def patch(flat: AnyArray, slots: list[Slots]) -> None:
        at = slots[0].tail[first:]
        if kind == "others":
            at = np.concatenate([part for s in (slots[0], slots[2]) for part in (s.prefix, s.tail)])
        start = 0 if rows.is_mla else rows.Hkv * rows.Dk
        width = rows.Hkv * rows.Dv
        sign = draw.below(2, (len(at), width)).astype(np.uint16) << np.uint16(15)
        flat[at, start : start + width] = HUGE | sign

    leaks: Patch = patch
    return build(
        draw, rows, requests, nodes, page_slots, flags=["huge_hidden"], patch=leaks, query=_by_rope(rows)
    )


def _by_rope(rows: Rows) -> Query | None:
    """In an mla row the value is part of the key, so there the query has its rope part alone."""
    if not rows.is_mla:
        return None

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        prefix, tail, mark = (part[..., rows.Dv :] for part in (keys.prefix, keys.tail, keys.mark))
        values = np.zeros((len(request.sees), rows.Hq, rows.Dk), np.int64)
        values[..., rows.Dv :] = lean(draw, prefix, tail, mark, request.sees, rows.Hq, rows.scale)
        return values

    return query


def _at_end(rows: Rows) -> Query:
    """About four nats over the other keys for the last slot of the prefix."""

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        own = keys.prefix[-1:].repeat(rows.Hq // rows.Hkv, axis=1).astype(np.int64)
        times = int(12 * 1024 / (rows.scale * rows.Dk))
        noise = draw.below(17, (len(request.sees), rows.Hq, rows.Dk)) - 8
        return eight_bits(noise + (times * own >> 10))

    return query


PROBES = Family(
    "probes",
    "verify_attn",
    "huge values in every slot that a row must not see; rows that see one key, where it is easily skipped",
    tiers(_smoke(), _standard()),
    _make,
)
