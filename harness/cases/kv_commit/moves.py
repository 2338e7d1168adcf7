"""kv_commit: accepted paths, row sizes and pages. Every byte of the pool is compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.case import Recipe, Value
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.paging import pages
from harness.cases.blocks.places import PLACES, place
from harness.cases.blocks.plans import grid, tiers
from harness.draw import Draw

MOVES = ("nothing", "identity", "gaps", "evens", "shifted", "far", "chained", "random")
ROW_BYTES = (1, 2, 3, 5, 7, 8, 12, 16, 24, 31, 48, 64, 130, 256, 1152)
DEPTH = 8


def path(draw: Draw, kind: str, nodes: int) -> list[int]:
    """Accepted slots, 0 first: at most `DEPTH` drafts, all below ``nodes`` (10 or more).

    ``gaps`` 0,2,5; ``evens`` 0,2,4,..; ``shifted`` 0,2,3,4,.. (every target but the first is the source of
    the next move); ``far`` the last slots; ``chained`` 0,1,3,4,6,.. (sources among the targets); ``random``.
    """
    most = min(DEPTH, nodes // 2)
    if kind == "random":
        return [0, *(1 + np.sort(draw.distinct(nodes - 1, draw.integer(1, most)))).tolist()]
    slots = {
        "nothing": [],
        "identity": list(range(1, most + 1)),
        "gaps": [2, 5],
        "evens": list(range(2, nodes, 2)),
        "shifted": list(range(2, most + 2)),
        "far": list(range(nodes - most, nodes)),
        "chained": [slot for slot in range(1, nodes) if slot % 3 != 2],
    }[kind]
    return [0, *slots[:most]]


def commit_inputs(
    draw: Draw,
    paths: Sequence[list[int]],
    prefix: Sequence[int],
    nodes: int,
    *,
    row_bytes: int,
    page_slots: int,
    layers: int,
    depth: int = DEPTH,
) -> dict[str, Value]:
    """Inputs of kv_commit; an empty path is an inactive request. The pool is a recipe of bytes."""
    table, count = pages(draw, prefix, [nodes if p else 0 for p in paths], page_slots)
    accept = np.full((len(paths), depth + 1), -1, np.int32)
    for b, slots in enumerate(paths):
        accept[b, : len(slots)] = slots
    return {
        "kv": Recipe("bytes", draw.integer(0, 2**32 - 1), (layers, count, page_slots, row_bytes)),
        "block_table": table,
        "prefix_len": np.array(prefix, np.int32),
        "accept_index": accept,
        "accept_len": np.array([len(p) - 1 for p in paths], np.int32),
    }


def _moves(params: Params, draw: Draw) -> Draft:
    kind, slots = str(params["moves"]), int(params["S"])
    nodes = 18
    prefix = {"zero": 0, "aligned": 2 * slots, "odd": slots + 3 if slots > 3 else 5}[str(params["prefix"])]
    moves = path(draw, kind, nodes)
    inputs = commit_inputs(draw, [moves], [prefix], nodes, row_bytes=6, page_slots=slots, layers=2)
    flags = {
        "nothing_accepted": kind == "nothing",
        "identity": kind == "identity",
        "off_first_branch": kind in ("gaps", "far"),
        "overlapping_moves": kind in ("evens", "shifted", "chained"),
        "page_border": slots < nodes,
        "partial_page": prefix % slots > 0,
    }
    return Draft(inputs, {}, ("commit", *(flag for flag, holds in flags.items() if holds)))


def _rows(params: Params, draw: Draw) -> Draft:
    """Two requests, one row size. The flag: rows that no 16-byte copy fits."""
    size, slots = int(params["R"]), int(params["S"])
    paths = [path(draw, "chained", 12), path(draw, "random", 12)]
    prefix = [draw.integer(0, 9), draw.integer(0, 9)]
    inputs = commit_inputs(draw, paths, prefix, 12, row_bytes=size, page_slots=slots, layers=int(params["Y"]))
    flags = ("odd_row_bytes",) if size % 16 else ()
    many = ("many_layers",) if int(params["Y"]) > 4 else ()
    return Draft(inputs, {}, ("overlapping_moves", *flags, *many))


def _batch(params: Params, draw: Draw) -> Draft:
    """``B`` requests with other paths and prefixes in shuffled pages; ``sleep`` names an inactive one."""
    batch, slots = int(params["B"]), int(params["S"])
    paths = [path(draw, draw.choice(MOVES), 14) for _ in range(batch)]
    paths[draw.integer(0, batch - 1)] = path(draw, "gaps", 14)
    flags = ["ragged_batch", "neighbour_pages"]
    if params["sleep"] == "all":
        paths = [[] for _ in paths]
        flags = ["inactive", "empty"]
    elif params["sleep"] != "none":
        paths[place(str(params["sleep"]), batch)] = []
        flags.append("inactive")
    prefix = draw.below(20, batch).tolist()
    inputs = commit_inputs(draw, paths, prefix, 14, row_bytes=10, page_slots=slots, layers=int(params["Y"]))
    return Draft(inputs, {}, tuple(flags))


def _deep(params: Params, draw: Draw) -> Draft:
    """Paths of up to 32 drafts in trees of up to 1,025 slots: long shifts over many pages."""
    nodes, slots = int(params["N"]), int(params["S"])
    moves = [0, *(1 + np.sort(draw.distinct(nodes - 1, 32))).tolist()]
    inputs = commit_inputs(
        draw, [moves, [0, nodes - 1]], [7, 40], nodes, row_bytes=8, page_slots=slots, layers=1, depth=32
    )
    return Draft(inputs, {}, ("long_moves", "page_border"))


PATHS = Family(
    "paths",
    "kv_commit",
    "Every kind of accepted path over pages of 1 to 256 slots, prefix at and off a page border.",
    tiers(
        [
            *grid(moves=("identity", "gaps", "evens", "shifted"), S=(4,), prefix=("odd",)),
        ],
        grid(moves=MOVES, S=(1, 7, 16, 64, 256), prefix=("zero", "odd")),
    ),
    _moves,
)

ROWS = Family(
    "rows",
    "kv_commit",
    "Rows of 1 to 8,200 bytes, so that a wide copy is right for some and overruns others; up to 80 layers.",
    tiers(
        grid(R=(1, 3, 24, 1152), S=(4,), Y=(1,)),
        [
            *grid(R=ROW_BYTES, S=(1, 7), Y=(1, 3)),
            *grid(R=(2048, 4096, 8200), S=(4,), Y=(1,)),
            *grid(R=(24,), S=(16,), Y=(61, 80)),
        ],
        grid(R=(656, 1152), S=(64,), Y=(61,)),
    ),
    _rows,
)

BATCH = Family(
    "batch",
    "kv_commit",
    "Ragged batches whose pages lie next to each other, with and without inactive requests.",
    tiers(
        grid(B=(3,), S=(4,), Y=(1,), sleep=("none", "first")),
        [
            *grid(B=(2, 4), S=(1, 7, 16), Y=(2,), sleep=("none", *PLACES, "all")),
            *grid(B=(8,), S=(5, 64), Y=(1, 4), sleep=("none",)),
            *grid(B=(40,), S=(5,), Y=(1,), sleep=("none",)),
        ],
        grid(B=(32, 128), S=(16, 64), Y=(4,), sleep=("none", "last")),
    ),
    _batch,
)

DEEP = Family(
    "deep",
    "kv_commit",
    "32 accepted drafts and slots up to 1,024.",
    tiers(grid(N=(65,), S=(16,)), grid(N=(65, 257, 1025), S=(1, 16, 64))),
    _deep,
)
