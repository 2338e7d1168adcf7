"""Large mla drafts: pool and queries are recipes, and a sample of rows is leaned to the tail and expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray, Patched, Recipe, row_values, small_integer_bf16
from harness.cases.base import Draft
from harness.cases.blocks import paging
from harness.cases.blocks.attention import masks
from harness.cases.blocks.attention.queries import FINE, UNIT_BITS, Floats, Ints, draw_mark, lean
from harness.cases.blocks.attention.requests import NAN_PATTERNS, Request, derived_flags
from harness.cases.blocks.attention.rows import Rows
from harness.draw import Draw
from references import bf16_to_float32

Places = npt.NDArray[np.int64]

SAMPLE = 64  # rows of a large case: 4.2 KB of expected values and 1.2 KB of query each
EVERY = 240  # up to so many rows (1 MB) all are expected
LONG = 1024  # keys of a prefix of which one is missed by its own weight only if a query leans to it
NOISE, SHARE = 30, (26, 36)  # percent: even spread and much weight, for a single head must tell each tail key
TILES = (32, 64)  # rows of a tile in the tensor-core kernels


def build(
    draw: Draw, rows: Rows, requests: Sequence[Request], nodes: int, page_slots: int, flags: Sequence[str]
) -> Draft:
    """A draft of mla ``requests`` in ``nodes`` slots each.

    Keys of live tails carry a mark, as everywhere. The sampled queries lean to it and, where the prefix is
    long, to one key of it each: among 131,072 equal ones nobody would miss a page.
    """
    prefix, live = [r.prefix for r in requests], [len(r.sees) for r in requests]
    table, pages = paging.pages(draw, prefix, live, page_slots)
    pool = Recipe("unit_bf16", _seed(draw), (pages, page_slots, rows.R))
    mark = draw_mark(draw, 1, rows.Dk)
    tails = [paging.rows(table, b, prefix[b], n, page_slots) for b, n in enumerate(live)]
    marked = _marked(pool, np.sort(np.concatenate(tails)), mark)
    chosen = sample_rows(draw, requests, nodes, rows.Hq)
    queries = Recipe("unit_bf16", _seed(draw), (len(requests), nodes, rows.Hq, rows.Dk))
    values = np.array(NAN_PATTERNS, np.uint16)[draw.below(len(NAN_PATTERNS), (len(chosen), rows.Dk))]
    request, node, _ = np.unravel_index(chosen, queries.shape[:3])
    bits = pool.materialize().reshape(-1, rows.R)
    bits[marked.rows] = marked.values
    for b, asked in enumerate(requests):
        mine = np.flatnonzero((request == b) & (node < live[b]))
        if len(mine):
            keys = _keys(bits[paging.rows(table, b, 0, prefix[b], page_slots)]), _keys(bits[tails[b]])
            pull = _needles(draw, keys[0][:, 0], len(mine), rows.scale)
            leaning = lean(
                draw, *keys, mark, asked.sees[node[mine]], 1, rows.scale, noise=NOISE, share=SHARE, pull=pull
            )
            values[mine] = small_integer_bf16(leaning[:, 0], UNIT_BITS)
    return Draft(
        inputs={
            "q": Patched(queries, chosen, values),
            "kv": marked,
            "block_table": table,
            "prefix_len": np.array(prefix, np.int32),
            "node_count": np.array(live, np.int32),
            "tree_mask": np.stack([masks.pack(r.sees, nodes) for r in requests]),
        },
        scalars={"Hkv": rows.Hkv, "Dv": rows.Dv, "scale": rows.scale},
        flags=tuple(sorted({*flags, *derived_flags(rows, requests, nodes, page_slots)})),
        rows=None if len(chosen) == len(requests) * nodes * rows.Hq else chosen,
    )


def sample_rows(draw: Draw, requests: Sequence[Request], nodes: int, heads: int) -> Places:
    """Rising places in [B*N*Hq]: the edges of the first and last live request, then some of each request.

    All rows where they are few (`EVERY`).
    """
    total = len(requests) * nodes * heads
    if total <= EVERY:
        return np.arange(total)
    live = [b for b, request in enumerate(requests) if len(request.sees)]
    chosen: dict[int, None] = {}
    for b in (live[0], live[-1]):
        chosen.update(dict.fromkeys(b * nodes * heads + at for at in edges(requests[b].sees, nodes, heads)))
    turn = 0
    while len(chosen) < SAMPLE:
        b = live[turn % len(live)]
        chosen[b * nodes * heads + draw.integer(0, len(requests[b].sees) * heads - 1)] = None
        turn += 1
    return np.array(sorted(chosen), np.int64)


def edges(sees: masks.Sees, nodes: int, heads: int) -> list[int]:
    """Rows (node * heads + head) of one request at which kernels go wrong, rising.

    First and last head of the first, last, deepest and a shallowest drafted node, of the nodes at an edge of
    a mask word, and of the first and last slot without a node; the rows at the first and last edge of a tile.
    """
    live, depth = len(sees), sees.sum(axis=1)
    some = {0, live - 1, int(depth.argmax()), int(depth[1:].argmin()) + 1 if live > 1 else 0}
    some |= {node for node in (31, 32) if node < live}
    some |= {live, nodes - 1} if live < nodes else set()
    found = {node * heads + head for node in some for head in (0, heads - 1)}
    for tile in TILES:
        last = (live * heads - 1) // tile * tile
        found |= _below(live * heads, (tile - 1, tile, last - 1, last, live * heads - 1))
    return sorted(found)


def _below(bound: int, places: Iterable[int]) -> set[int]:
    return {place for place in places if 0 <= place < bound}


def _needles(draw: Draw, prefix: AnyArray, count: int, scale: float) -> Ints | None:
    """What to add to ``count`` queries so that each gives much weight to a key of a long ``prefix`` [P,Dk].

    Query i leans to a key of the i-th of equal parts of the prefix, the outer ones to its first and last key.
    """
    keys = len(prefix)
    if keys < LONG:
        return None
    part = np.arange(count) * keys // count
    place = part + draw.below(max(keys // count, 1), count)
    place[0], place[-1] = 0, keys - 1
    needle = prefix[place].astype(np.int64)
    length = (needle * needle).sum(axis=1)
    nats = Fraction(693 * keys.bit_length(), 1000)  # a key with logit ln(keys) weighs as much as all of them
    units = int(nats * 2 ** (2 * UNIT_BITS + FINE) / Fraction(scale))
    pull: Ints = (units // length[:, None] * needle)[:, None]
    return pull


def _seed(draw: Draw) -> int:
    return int(draw.words(1)[0] >> np.uint64(1))


def _marked(pool: Recipe, tail: Places, mark: Floats) -> Patched:
    """The pool with the mark in its rows ``tail`` (rising)."""
    values, at = row_values(pool, tail), np.flatnonzero(mark)
    values[:, at] = small_integer_bf16(mark.reshape(-1)[at], UNIT_BITS)
    return Patched(pool, tail, values)


def _keys(bits: AnyArray) -> AnyArray:
    """Keys float32 [k,1,Dk] of pool rows, in units of 1/128: whole numbers."""
    return (bf16_to_float32(bits) * np.float32(2.0**UNIT_BITS))[:, None]
