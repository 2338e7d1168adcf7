"""Large mla attention, pairwise: heads, nodes, prefix, batch, page size, tree; and every number of splits.

The product of these axes has 31,104 members; a list in which every feasible pair occurs has 74. A row of such
a case does not depend on the others, so a sample of rows is expected (`blocks.attention.sample`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.masks import Sees, tree_sees
from harness.cases.blocks.attention.requests import Request
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.attention.sample import build
from harness.cases.blocks.covering import covering
from harness.draw import Draw

AXES = {
    "H": (4, 8, 16, 32, 64, 128),
    "N": (1, 2, 17, 33, 65, 129, 257, 1025),
    "P": (0, 1, 63, 64, 65, 1024, 8192, 32768, 131072),
    "B": (1, 8, 32),
    "S": (1, 7, 16, 33, 64, 256),
    "tree": ("best", "chain", "comb", "random"),
}
CEILING = 1 << 30  # bytes of pool, queries and outputs of a case
RAGGED = 32  # a batch of so many requests is ragged: P is the longest prefix, N the most nodes
SHORT = (0, 1, 63, 64, 65, 500, 1024, 3000)  # prefixes of its other requests

# Tiles of 64 rows in one request. On W multiprocessors each tile is cut into W // tiles splits; with these
# every quotient of 132 occurs, and with fewer or more multiprocessors most of theirs.
SPLIT_TILES = (*range(1, 15), 16, 18, 22, 26, 33, 44, 66, 132, 133)

NOBODY: Sees = np.zeros((0, 0), np.bool_)


@cache
def pairs() -> tuple[Params, ...]:
    """The covering list."""
    return tuple(covering(AXES, device_bytes, CEILING))


def device_bytes(params: Params) -> float:
    """Bytes of the pool, queries and outputs of a case, at most."""
    heads, nodes, prefix, batch, _ = (int(params[name]) for name in ("H", "N", "P", "B", "S"))
    others = min(prefix, max(SHORT)) if batch == RAGGED else prefix
    slots = prefix + nodes + (batch - 1) * (others + nodes)
    rows = rows_named(f"mla{heads}")
    return 2 * rows.R * slots + batch * nodes * heads * (2 * rows.Dk + 2 * rows.Dv + 4)


def _splits() -> Iterator[Params]:
    for i, tiles in enumerate(SPLIT_TILES):
        heads, nodes = (64, tiles) if i % 2 else (16, 4 * tiles)
        yield {"H": heads, "N": nodes, "P": 16001, "B": 1, "S": 64, "tree": "random"}


def _make(params: Params, draw: Draw) -> Draft:
    nodes, prefix, batch, tree = int(params["N"]), int(params["P"]), int(params["B"]), str(params["tree"])
    if batch == RAGGED:
        requests = [Request(prefix, tree_sees(draw, tree, nodes))]
        requests += [_other(draw, nodes, prefix, tree) for _ in range(batch - 1)]
        requests[draw.integer(1, batch - 2)] = Request(0, NOBODY)
    else:
        requests = [Request(prefix, tree_sees(draw, tree, nodes)) for _ in range(batch)]
    flags = ["large_shape", *(["ragged_batch"] if batch == RAGGED else [])]
    return build(draw, rows_named(f"mla{params['H']}"), requests, nodes, int(params["S"]), flags)


def _other(draw: Draw, nodes: int, prefix: int, tree: str) -> Request:
    return Request(min(draw.choice(SHORT), prefix), tree_sees(draw, tree, draw.integer(1, nodes)))


PAIRS = Family(
    "pairs",
    "verify_attn",
    "mla: every pair of heads, nodes, prefix, batch, page size and tree, up to 131,072 keys and 1 GiB",
    lambda suite: pairs() if suite == "full" else (),
    _make,
)
SPLITS = Family(
    "splits",
    "verify_attn",
    "mla: 1 to 133 tiles of 64 rows over 16,001 keys, for every number of splits of a tile",
    lambda suite: _splits() if suite == "full" else (),
    _make,
)
