"""Values at the edges of softmax: zero and peaked queries, large and equal logits, huge hidden values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from harness.case import AnyArray
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import tree_sees
from harness.cases.blocks.attention.queries import Ints, eight_bits, lean
from harness.cases.blocks.attention.requests import Keys, Patch, Query, Request, Slots, build
from harness.cases.blocks.attention.rows import Rows, rows_named
from harness.cases.blocks.plans import tiers
from harness.draw import Draw

ONE = np.uint16(0x3F80)  # bf16 1.0
Recipe = Callable[[Draw, Rows, Params, float], tuple[Query | None, Patch | None]]


def _smoke() -> Iterator[Params]:
    yield _params("zero", "gqa1x1d16v16", 5, 252, 16)
    yield _params("peaked", "gqa2x1d32v16", 5, 17, 16)
    yield _params("offset", "gqa1x1d16v16", 5, 9, 16, at="plus90")
    yield _params("huge", "gqa1x1d16v16", 5, 9, 16)


def _standard() -> Iterator[Params]:
    for rows in ("mla1", "gqa4x2d32v32", "gqa1x1d64v64"):
        for nodes, prefix in ((1, 256), (5, 252), (17, 33), (2, 0)):  # 257 keys over tiles of 256
            yield _params("zero", rows, nodes, prefix, 64)
    for i, rows in enumerate(("mla1", "mla2", "gqa4x2d64v32", "gqa1x1d128v128", "gqa2x2d64v64")):
        yield _params("peaked", rows, 17, (33, 16, 40, 64, 17)[i], 16)
        yield _params("peaked", rows, 5, (7, 65, 15, 33, 100)[i], 7)
        for offset in (60, -60, 95, -110, 700, -900)[i % 2 :: 2]:
            yield _params(
                "offset",
                rows,
                5,
                (5, 0, 16, 17, 9)[i],
                16,
                at=f"{'minus' if offset < 0 else 'plus'}{abs(offset)}",
            )
        for percent in (2, 12, 100, 400):
            yield _params("scaled", rows, 9, (33, 17, 64, 20, 5)[i], 33, percent=percent)
    for i, rows in enumerate(("gqa1x1d64v64", "gqa2x2d16v32", "gqa4x1d32v32", "mla1", "gqa8x2d16v16")):
        yield _params("huge", rows, 17, (20, 0, 33, 17, 64)[i], 16)
        if rows != "mla1":
            yield _params("equal", rows, 9, (23, 7, 0, 16, 55)[i], 16)


def _params(kind: str, rows: str, nodes: int, prefix: int, pages: int, **more: int | str) -> Params:
    return {"kind": kind, "rows": rows, "N": nodes, "P": prefix, "S": pages, **more}


def _make(params: Params, draw: Draw) -> Draft:
    kind, rows, nodes = str(params["kind"]), rows_named(str(params["rows"])), int(params["N"])
    scale = rows.scale
    if kind == "scaled":
        scale = float(np.float32(scale * int(params["percent"]) / 100))
    query, patch = _KINDS[kind](draw, rows, params, scale)
    request = Request(int(params["P"]), tree_sees(draw, "random", nodes))
    return build(
        draw,
        rows,
        [request],
        nodes,
        int(params["S"]),
        flags=[_FLAG[kind]],
        scale=scale,
        query=query,
        patch=patch,
    )


def _zero(draw: Draw, rows: Rows, params: Params, scale: float) -> tuple[Query | None, Patch | None]:
    """Every visible key has the same weight: out is the mean of the values, lse the log of the count."""

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        return np.zeros((len(request.sees), rows.Hq, rows.Dk), np.int64)

    return query, None


def _peaked(draw: Draw, rows: Rows, params: Params, scale: float) -> tuple[Query | None, Patch | None]:
    """One key takes most of the weight: the first or last of the prefix, or the node itself."""

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        quiet = lean(draw, keys.prefix[:0], keys.tail, keys.mark, request.sees, rows.Hq, scale, noise=30)
        ends = [keys.prefix[:1], keys.prefix[-1:], keys.tail]
        chosen = [draw.choice(ends) for _ in range(rows.Hq)]
        # Seven nats over the others: 7 * 3 / (scale * Dk) times the key.
        times = int(Fraction(21 << 10) / (Fraction(scale) * rows.Dk))
        for h, end in enumerate(chosen):
            own = end[:, h // (rows.Hq // rows.Hkv)].astype(np.int64)
            quiet[:, h] += (times * own) >> 10
        return eight_bits(quiet)

    return query, None


def _offset(draw: Draw, rows: Rows, params: Params, scale: float) -> tuple[Query | None, Patch | None]:
    """All logits near ``at``: the last key element is 1 everywhere, the query's is that over the scale."""
    offset = int(str(params["at"]).replace("minus", "-").replace("plus", ""))
    steps = int(Fraction(offset << 7) / Fraction(scale))

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        prefix, tail = keys.prefix.copy(), keys.tail.copy()
        prefix[..., -1] = tail[..., -1] = 0
        values = lean(draw, prefix, tail, keys.mark, request.sees, rows.Hq, scale, noise=60)
        values[..., -1] = eight_bits(np.array([steps]))[0]
        return values

    def patch(flat: AnyArray, slots: list[Slots]) -> None:
        for at in (slots[0].prefix, slots[0].tail):
            for g in range(rows.Hkv):
                flat[at, (g + 1) * rows.Dk - 1] = ONE

    return query, patch


def _huge(draw: Draw, rows: Rows, params: Params, scale: float) -> tuple[Query | None, Patch | None]:
    """Every third node's value is +-2^60: whoever does not see it must not feel it.

    In an mla row the value is part of the key, so there the query has its rope part alone.
    """

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        if not rows.is_mla:
            return lean(draw, keys.prefix, keys.tail, keys.mark, request.sees, rows.Hq, scale)
        prefix, tail, mark = (part[..., rows.Dv :] for part in (keys.prefix, keys.tail, keys.mark))
        values = np.zeros((len(request.sees), rows.Hq, rows.Dk), np.int64)
        values[..., rows.Dv :] = lean(draw, prefix, tail, mark, request.sees, rows.Hq, scale)
        return values

    def patch(flat: AnyArray, slots: list[Slots]) -> None:
        first = 0 if rows.is_mla else rows.Hkv * rows.Dk
        width = rows.Hkv * rows.Dv
        some = slots[0].tail[1::3]
        sign = draw.below(2, (len(some), width)).astype(np.uint16) << np.uint16(15)
        flat[some, first : first + width] = np.uint16(0x5D80) | sign

    return query, patch


def _equal(draw: Draw, rows: Rows, params: Params, scale: float) -> tuple[Query | None, Patch | None]:
    """All keys are one key, the values differ: every visible key has the same weight again."""

    def query(draw: Draw, request: Request, keys: Keys) -> Ints:
        return lean(draw, keys.prefix[:0], keys.tail, keys.mark, request.sees, rows.Hq, scale, noise=300)

    def patch(flat: AnyArray, slots: list[Slots]) -> None:
        width = rows.Hkv * rows.Dk
        for at in (slots[0].prefix, slots[0].tail):
            flat[at, :width] = flat[slots[0].tail[0], :width].copy()

    return query, patch


def _scaled(draw: Draw, rows: Rows, params: Params, scale: float) -> tuple[Query | None, Patch | None]:
    return None, None


_KINDS: dict[str, Recipe] = {
    "zero": _zero, "peaked": _peaked, "offset": _offset, "huge": _huge, "equal": _equal, "scaled": _scaled,
}  # fmt: skip
_FLAG = {
    "zero": "zero_query", "peaked": "peaked", "offset": "large_logits", "huge": "huge_hidden",
    "equal": "equal_logits", "scaled": "other_scale",
}  # fmt: skip

VALUES = Family(
    "values",
    "verify_attn",
    "zero queries, peaked, equal and very large logits, other scales, huge values of hidden nodes",
    tiers(_smoke(), _standard()),
    _make,
)
