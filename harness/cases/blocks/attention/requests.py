"""Assembles a verify_attn draft from requests: pages, pool, leaning queries, mask, derived flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray, Patched, Recipe, small_integer_bf16
from harness.cases.base import Draft
from harness.cases.blocks import paging
from harness.cases.blocks.attention import masks
from harness.cases.blocks.attention.queries import UNIT_BITS, Floats, Ints, draw_mark, lean
from harness.cases.blocks.attention.rows import Rows
from harness.draw import Draw
from references import bf16_to_float32

NAN_PATTERNS = (0x7FC0, 0xFFFF, 0x7F80, 0xFF80, 0x7F81)  # quiet, negative, two infinities, signalling


@dataclass(frozen=True)
class Request:
    """``sees`` bool [n,n] is the mask of its n live nodes; n = 0 is an inactive request."""

    prefix: int
    sees: masks.Sees


@dataclass(frozen=True)
class Slots:
    """Where one request stands: pool rows int64 of its prefix [P] and of its live tail [n]."""

    prefix: npt.NDArray[np.int64]
    tail: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Keys:
    """One request's keys in 1/128: ``prefix`` [P,Hkv,Dk], ``tail`` [n,Hkv,Dk], ``mark`` [Hkv,Dk]."""

    prefix: Floats
    tail: Floats
    mark: Floats


Patch = Callable[[AnyArray, list[Slots]], None]
Query = Callable[[Draw, Request, Keys], Ints]


def build(
    draw: Draw,
    rows: Rows,
    requests: Sequence[Request],
    nodes: int,
    page_slots: int,
    *,
    flags: Sequence[str] = (),
    scale: float | None = None,
    shared: int = 0,
    spare_pages: int = 2,
    arrange: Callable[[npt.NDArray[np.int32], int], int] | None = None,
    patch: Patch | None = None,
    query: Query | None = None,
    stray: bool = False,
) -> Draft:
    """A draft of ``requests`` in ``nodes`` slots each (at least the live nodes of every one).

    ``arrange`` may move pages: it changes the block table in place and returns the number of pages.
    ``patch`` changes the pool, bf16 bits [G*S,R], in place. ``query`` gives queries int64 [n,Hq,Dk] in
    units of 1/128; the default leans to the tail. ``stray`` sets random bits where no bit counts. Queries
    of slots at or past the live nodes are NaN and infinities.
    """
    factor = float(np.float32(rows.scale if scale is None else scale))
    prefix = [r.prefix for r in requests]
    live = [len(r.sees) for r in requests]
    table, pages = paging.pages(draw, prefix, live, page_slots, shared=shared, spare_pages=spare_pages)
    if arrange is not None:
        pages = arrange(table, pages)
    base = Recipe("unit_bf16", int(draw.words(1)[0] >> np.uint64(1)), (pages, page_slots, rows.R))
    pool = base.materialize()
    flat = pool.reshape(-1, rows.R)
    slots = [
        Slots(
            paging.rows(table, b, 0, prefix[b] if n else 0, page_slots),
            paging.rows(table, b, prefix[b], n, page_slots),
        )
        for b, n in enumerate(live)
    ]
    mark = draw_mark(draw, rows.Hkv, rows.Dk)
    marked = np.flatnonzero(mark)
    flat[np.concatenate([s.tail for s in slots])[:, None], marked] = small_integer_bf16(
        mark.reshape(-1)[marked], UNIT_BITS
    )
    if patch is not None:
        patch(flat, slots)
    q = np.array(NAN_PATTERNS, np.uint16)[
        draw.below(len(NAN_PATTERNS), (len(requests), nodes, rows.Hq, rows.Dk))
    ]
    words = np.zeros((len(requests), nodes, (nodes + 31) // 32), np.uint32)
    for b, request in enumerate(requests):
        words[b] = masks.pack(request.sees, nodes)
        if stray:
            words[b] = masks.stray(draw, words[b], live[b])
        if live[b]:
            keys = Keys(_keys(flat[slots[b].prefix], rows), _keys(flat[slots[b].tail], rows), mark)
            if query is None:
                values = lean(draw, keys.prefix, keys.tail, keys.mark, request.sees, rows.Hq, factor)
            else:
                values = query(draw, request, keys)
            q[b, : live[b]] = small_integer_bf16(values, UNIT_BITS)
    return Draft(
        inputs={
            "q": q,
            "kv": Patched.difference(base, pool),
            "block_table": table,
            "prefix_len": np.array(prefix, np.int32),
            "node_count": np.array(live, np.int32),
            "tree_mask": words,
        },
        scalars={"Hkv": rows.Hkv, "Dv": rows.Dv, "scale": factor},
        flags=tuple(sorted({*flags, *derived_flags(rows, requests, nodes, page_slots)})),
    )


def derived_flags(rows: Rows, requests: Sequence[Request], nodes: int, page_slots: int) -> set[str]:
    """Flags that follow from shapes and masks alone."""
    live = [len(r.sees) for r in requests]
    flags = {"mla" if rows.is_mla else "gqa"}
    if max(live) == 0:
        flags.add("empty")
    elif max(live) == 1:
        flags.add("root_only")
    elif all((r.sees == masks.causal(len(r.sees))).all() for r in requests):
        flags.add("chain")
    if len({(r.prefix, len(r.sees)) for r in requests}) > 1:
        flags.add("ragged")
    if any(r.prefix == 0 for r in requests):
        flags.add("zero_prefix")
    if 0 in live:
        flags.add("inactive")
    if any(0 < n < nodes for n in live):
        flags.add("padded_nodes")
    if page_slots == 1 or page_slots & (page_slots - 1):
        flags.add("odd_page")
    if nodes > 32:
        flags.add("many_words")
    if rows.Hkv > 1 and rows.Hq > rows.Hkv:
        flags.add("head_groups")
    return flags


def _keys(bits: AnyArray, rows: Rows) -> Floats:
    """Keys [k,Hkv,Dk] of pool rows ``bits`` [k,R], in units of 1/128."""
    keys = bf16_to_float32(bits[:, : rows.Hkv * rows.Dk]).astype(np.float64) * 2.0**UNIT_BITS
    return keys.reshape(len(bits), rows.Hkv, rows.Dk)
