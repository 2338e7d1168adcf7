"""tree_build: the best-first draft tree of DDTree (arXiv 2604.12989), by a heap."""

from __future__ import annotations

from heapq import heappush, heapreplace
from math import inf

import numpy as np
from numpy.typing import NDArray

from ._checks import Array, Dims, Outputs, whole


def tree_build(
    *,
    topk_logprob: NDArray[np.float32],
    topk_token: NDArray[np.int32],
    root_token: NDArray[np.int32],
    prefix_len: NDArray[np.int32],
    budget: int,
) -> Outputs:
    """Build the tree of the ``budget`` best nodes of every request.

    In: ``topk_logprob`` float32 [B,L,K], ``topk_token`` int32 [B,L,K], ``root_token`` and ``prefix_len``
    int32 [B]. With N = budget + 1 and W = ceil(N / 32), out: ``node_token``, ``node_parent``,
    ``node_depth``, ``position``, ``next_token``, ``next_sibling`` int32 [B,N], ``tree_mask`` uint32
    [B,N,W], ``node_count``, ``tree_status`` int32 [B].

    A node is a tuple of ranks (r1..rd), d <= L; its score is the float64 sum of its log-probs, left to
    right. Nodes are numbered from 1 by (score descending, rank tuple ascending). A log-prob of -inf is no
    candidate. NaN, a positive value or an unsorted row anywhere in a request gives ``tree_status`` 1 and
    its root alone. A request with ``root_token`` -1 is inactive: node_count 0, and that wins over bad rows.
    Padding is -1, and 0 in the mask.

    ValueError: an array of another shape or dtype, L or K of 0, a negative budget.
    """
    dims = Dims()
    dims.take("topk_logprob", topk_logprob, np.float32, "B L K")
    dims.take("topk_token", topk_token, np.int32, "B L K")
    dims.take("root_token", root_token, np.int32, "B")
    dims.take("prefix_len", prefix_len, np.int32, "B")
    budget = whole("budget", budget, 0)
    batch, depths, width = topk_logprob.shape
    if depths < 1 or width < 1:
        raise ValueError(f"topk_logprob: got {topk_logprob.shape}, want L >= 1 and K >= 1")
    nodes = budget + 1

    active = root_token != -1
    # Candidates with a border: row d is depth d, column r + 1 is rank r. The root stands in the first corner.
    stride = width + 2
    costs = np.full((batch, depths + 2, stride), inf)  # float64, exact
    costs[:, :, 0] = 0
    np.negative(topk_logprob, out=costs[:, 1:-1, 1:-1])
    tokens = np.full(costs.shape, -1, np.int32)
    tokens[:, 1:-1, 1:-1] = topk_token
    tokens[:, 0, 0] = root_token
    # A row of costs rises, from 0 to inf, if it is good; NaN is not <= anything.
    bad = active & ~(costs[:, :, :-1] <= costs[:, :, 1:]).all(axis=(1, 2))

    columns: tuple[list[int], ...] = ([], [], [], [])
    for b, alive in enumerate(active.tolist()):
        parents, places = _best_first(costs[b], 0 if bad[b] else budget) if alive else ([], [])
        padding = [-1] * (nodes - len(parents))
        for held, values in zip(columns, (parents, places, *_links(parents)), strict=True):
            held += values + padding
    node_parent, place, next_token, next_sibling = (
        np.array(held, np.int32).reshape(batch, nodes) for held in columns
    )

    request = np.arange(batch)[:, None]
    node_token = tokens.reshape(batch, -1)[request, place]  # place -1 holds -1
    node_depth = place // np.int32(stride)
    empty = place == -1
    position = prefix_len[:, None] + node_depth
    position[empty] = -1
    tree_mask = _masks(node_parent, depths)
    tree_mask[empty] = 0
    return {
        "node_token": node_token,
        "node_parent": node_parent,
        "node_depth": node_depth,
        "position": position,
        "next_token": next_token,
        "next_sibling": next_sibling,
        "tree_mask": tree_mask,
        "node_count": nodes - empty.sum(axis=1, dtype=np.int32),
        "tree_status": bad.astype(np.int32),
    }


def _best_first(costs: Array, budget: int) -> tuple[list[int], list[int]]:
    """The root and the ``budget`` best nodes: their parents, and their places in the flattened costs.

    ``costs[d, r + 1]`` is that of rank r at depth d: the heap's smallest cost is the best score, inf is no
    candidate. Entries are (cost, ranks, parent): ranks are unique, so a comparison never goes further. A
    popped node is replaced by its next sibling and its first child; both come later in the order, because a
    rounded sum never falls when a cost that is no smaller is added.
    """
    stride = costs.shape[1]
    cost_at = costs.reshape(-1).data  # few are needed: no list of all
    parents, places, node_cost, node_ranks = [-1], [0], [0.0], list[tuple[int, ...]]([()])
    heap: list[tuple[float, tuple[int, ...], int]] = [(cost_at[stride + 1], (0,), 0)]
    for node in range(1, budget + 1):
        cost, ranks, parent = heap[0]
        if cost == inf:
            break
        depth, rank = len(ranks), ranks[-1]
        place = depth * stride + rank + 1
        parents.append(parent)
        places.append(place)
        node_cost.append(cost)
        node_ranks.append(ranks)
        sibling, child = node_cost[parent] + cost_at[place + 1], cost + cost_at[(depth + 1) * stride + 1]
        heapreplace(heap, (sibling, node_ranks[parent] + (rank + 1,), parent))
        heappush(heap, (child, ranks + (0,), node))  # noqa: RUF005  # (*ranks, 0) makes a list first
    return parents, places


def _links(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of every node, -1 for none: head insertion from the last node down."""
    child, sibling = [-1] * len(parents), [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        parent = parents[node]
        sibling[node] = child[parent]
        child[parent] = node
    return child, sibling


def _masks(parents: Array, depths: int) -> Array:
    """uint32 [B,N,W]: bit j of row i is set when j is i or an ancestor of i.

    No node is deeper than ``depths``.
    """
    batch, nodes = parents.shape
    words = (nodes + 31) // 32
    own = np.packbits(np.eye(nodes, 32 * words, dtype=np.bool_), axis=1, bitorder="little").view("<u4")
    masks = np.tile(own, (batch, 1))
    above = (np.maximum(parents, 0) + nodes * np.arange(batch)[:, None]).reshape(-1)
    for _ in range(depths.bit_length()):  # a row holds the nearest 1, 2, 4 .. generations
        masks |= masks.take(above, axis=0)
        above = above.take(above)
    return masks.reshape(batch, nodes, words)
