"""The mask decides: bit patterns that no tree gives, and bits that must be ignored."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import Sees, relabelled, tree_sees
from harness.cases.blocks.attention.requests import Request, build
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.plans import tiers
from harness.draw import Draw

KINDS = {
    "random": "any_bits",  # half of all bits
    "sparse": "any_bits",  # few bits: with prefix 0, rows that see nothing
    "no_self": "self_hidden",
    "relabelled": "later_ancestor",
    "reversed": "later_ancestor",
    "stray": "stray_bits",
    "last": "last_key_only",  # each row sees the last node alone
    "nothing": "sees_nothing",
}
ROWS = ("gqa1x1d64v64", "mla1", "gqa4x2d32v32", "gqa2x1d16v16", "mla2")
SIZES = ((5, 5), (17, 17), (20, 17), (33, 33), (40, 33), (64, 47), (65, 65))
PREFIX = (0, 19, 0, 33, 64, 0, 7, 130)


def _smoke() -> Iterator[Params]:
    for kind, prefix in (("random", 9), ("no_self", 0), ("relabelled", 17), ("stray", 3), ("nothing", 0)):
        yield {"kind": kind, "rows": "gqa1x1d16v16", "N": 5, "live": 4, "P": prefix, "S": 16}


def _standard() -> Iterator[Params]:
    for i in range(6 * len(KINDS)):
        kind = tuple(KINDS)[i % len(KINDS)]
        nodes, live = SIZES[(i + i // len(KINDS)) % len(SIZES)]
        prefix = PREFIX[(i // len(KINDS) + i) % len(PREFIX)]
        if kind == "nothing" or (kind in ("last", "sparse") and i < 3 * len(KINDS)):
            prefix = 0
        yield {
            "kind": kind,
            "rows": ROWS[i % len(ROWS)] if nodes < 60 else "gqa1x1d64v64",
            "N": nodes,
            "live": live,
            "P": prefix,
            "S": (16, 7, 64, 1)[i // 2 % 4],
        }


def _make(params: Params, draw: Draw) -> Draft:
    kind, live = str(params["kind"]), int(params["live"])
    sees = _pattern(draw, kind, live)
    flags = [KINDS[kind]]
    if int(params["P"]) == 0 and not sees.any(axis=1).all():
        flags.append("sees_nothing")
    return build(
        draw,
        rows_named(str(params["rows"])),
        [Request(int(params["P"]), sees)],
        int(params["N"]),
        int(params["S"]),
        flags=flags,
        stray=True,
    )


def _pattern(draw: Draw, kind: str, live: int) -> Sees:
    if kind == "random":
        return draw.chance(50, (live, live))
    if kind == "sparse":
        return draw.below(2 * live, (live, live)) < 1
    tree = tree_sees(draw, "random", live)
    if kind == "no_self":
        return tree & ~np.eye(live, dtype=np.bool_)
    if kind == "relabelled":
        return relabelled(draw, tree)
    if kind == "reversed":
        return tree[::-1, ::-1]
    if kind == "last":
        tree[:] = False
        tree[:, -1] = True
    if kind == "nothing":
        tree[:] = False
        tree[draw.integer(0, live - 1), draw.integer(0, live - 1)] = True
    return tree


BITS = Family(
    "bits",
    "verify_attn",
    "masks as any bit pattern, with random bits wherever a bit must not count",
    tiers(_smoke(), _standard()),
    _make,
)
