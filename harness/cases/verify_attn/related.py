"""Metamorphic cases of verify_attn: two cases whose answers are related, whatever the right answer is.

Side ``a`` is an ordinary case, side ``b`` the same contents in another form: requests in another order, other
pages, another page size, a prefix in the highest pages, or each path of the tree as a chain of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray, Patched, Recipe, materialize
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks import paging
from harness.cases.blocks.attention.masks import TREES, Sees, causal, pack, tree_sees
from harness.cases.blocks.attention.requests import Request, build, derived_flags
from harness.cases.blocks.attention.rows import Rows, rows_named
from harness.cases.blocks.plans import tiers
from harness.cases.blocks.two_orders import SIDES, turned
from harness.draw import Draw
from references import unpack_mask

RELATIONS = ("order", "pages", "page_size", "high", "paths")
ROWS = ("gqa2x1d32v32", "mla1", "gqa4x2d32v32", "gqa2x2d64v64")


@dataclass(frozen=True)
class Part:
    """One request without its pages: pool rows bf16 [prefix+n,R], queries [n,Hq,Dk], what its nodes see."""

    prefix: int
    rows: AnyArray
    q: AnyArray
    sees: Sees


def _smoke() -> Iterator[Params]:
    for relation in ("pages", "paths"):
        for side in SIDES:
            yield {"relation": relation, "rows": "gqa1x1d16v16", "B": 1, "N": 5, "S": 4, "side": side}


def _standard() -> Iterator[Params]:
    for k, relation in enumerate(RELATIONS):
        for i, (batch, nodes, pages) in enumerate(((2, 9, 16), (3, 17, 7), (4, 12, 5))):
            rows = ROWS[(i + k) % len(ROWS)]
            for side in SIDES:
                yield {
                    "relation": relation, "rows": rows, "B": 1 if relation == "paths" else batch,
                    "N": nodes, "S": pages, "side": side,
                }  # fmt: skip


def _make(params: Params, draw: Draw) -> Draft:
    relation, rows = str(params["relation"]), rows_named(str(params["rows"]))
    batch, nodes, page_slots = (int(params[k]) for k in ("B", "N", "S"))
    requests = [
        Request(draw.integer(1, 40), tree_sees(draw, draw.choice(TREES), n))
        for n in [nodes, *(draw.integer(max(2, nodes // 2), nodes) for _ in range(batch - 1))]
    ]
    if relation == "paths":
        requests = [Request(requests[0].prefix, tree_sees(draw, "random", nodes))]
    first = build(draw, rows, requests, nodes, page_slots, flags=["metamorphic"])
    if params["side"] == "a":
        return first
    if relation == "order":
        order = turned(batch)
        own = ("q", "block_table", "prefix_len", "node_count", "tree_mask")
        moved = {n: materialize(v)[order] if n in own else v for n, v in first.inputs.items()}
        return replace(first, inputs=moved)
    parts = _parts(first, page_slots)
    if relation == "page_size":
        page_slots = {16: 3, 7: 64, 5: 1}[page_slots]
    elif relation == "paths":
        parts = [_path(parts[0], node) for node in path_ends(parts[0].sees)]
        nodes = max(len(part.sees) for part in parts)
    return _placed(draw, rows, first, parts, nodes, page_slots, spare=60 if relation == "high" else 3)


def path_ends(sees: Sees) -> list[int]:
    """Up to six nodes, the deepest first among them, each the end of a path."""
    depth = sees.sum(axis=1)
    return [int(i) for i in np.lexsort((np.arange(len(sees)), -depth))[:6]]


def _parts(draft: Draft, page_slots: int) -> list[Part]:
    given = {name: materialize(value) for name, value in draft.inputs.items()}
    pool = given["kv"].reshape(-1, given["kv"].shape[-1])
    parts = []
    for b, (prefix, live) in enumerate(
        zip(given["prefix_len"].tolist(), given["node_count"].tolist(), strict=True)
    ):
        at = paging.rows(given["block_table"], b, 0, prefix + live, page_slots)
        sees = unpack_mask(given["tree_mask"][b, :live], live)
        parts.append(Part(prefix, pool[at], given["q"][b, :live], sees))
    return parts


def _path(part: Part, node: int) -> Part:
    """The path to ``node`` as a request of its own: a chain."""
    path = np.flatnonzero(part.sees[node])
    rows = np.concatenate([part.rows[: part.prefix], part.rows[part.prefix + path]])
    return Part(part.prefix, rows, part.q[path], causal(len(path)))


def _placed(
    draw: Draw, rows: Rows, first: Draft, parts: Sequence[Part], nodes: int, page_slots: int, spare: int
) -> Draft:
    """``parts`` in fresh pages. With many spare pages the mapped ones are the highest."""
    prefix, live = [p.prefix for p in parts], [len(p.sees) for p in parts]
    table, pages = paging.pages(draw, prefix, live, page_slots, spare_pages=3)
    if spare > 3:
        table[(table >= 0) & (table < pages)] += spare
        pages += spare
    base = Recipe("unit_bf16", draw.integer(0, 2**32 - 1), (pages, page_slots, rows.R))
    pool = base.materialize()
    q = np.full((len(parts), nodes, rows.Hq, rows.Dk), 0x7FC0, np.uint16)
    words: npt.NDArray[np.uint32] = np.stack([pack(p.sees, nodes) for p in parts])
    for b, part in enumerate(parts):
        at = paging.rows(table, b, 0, prefix[b] + live[b], page_slots)
        pool.reshape(-1, rows.R)[at] = part.rows
        q[b, : live[b]] = part.q
    requests = [Request(p.prefix, p.sees) for p in parts]
    return Draft(
        inputs={
            "q": q,
            "kv": Patched.difference(base, pool),
            "block_table": table,
            "prefix_len": np.array(prefix, np.int32),
            "node_count": np.array(live, np.int32),
            "tree_mask": words,
        },
        scalars=first.scalars,
        flags=tuple(sorted({"metamorphic", *derived_flags(rows, requests, nodes, page_slots)})),
    )


RELATED = Family(
    "related",
    "verify_attn",
    "pairs of cases with related answers: other order, pages, page size, high pages, paths as chains",
    tiers(_smoke(), _standard()),
    _make,
    partners="side",
)
