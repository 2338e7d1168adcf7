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
    words = (nodes + 31) // 32

    active = root_token != -1
    # A row of costs is 0, minus the log-probs, inf: it rises if it is good, and inf ends siblings and depths.
    costs = np.full((batch, depths + 2, width + 2), inf)  # float64, exact; row d is depth d
    costs[:, :, 0] = 0
    np.negative(topk_logprob, out=costs[:, 1:-1, 1:-1])
    bad = active & ~(costs[:, :, :-1] <= costs[:, :, 1:]).all(axis=(1, 2))  # NaN is not <= anything

    node_parent, next_token, next_sibling = np.full((3, batch, nodes), -1, np.int32)
    place = np.zeros((batch, nodes), np.int32)
    tree_mask = np.zeros((batch, nodes, words), np.uint32)
    for b in np.flatnonzero(active).tolist():
        parents, places = _best_first(costs[b], 0 if bad[b] else budget)
        live = slice(len(parents))
        node_parent[b, live], place[b, live] = parents, places
        next_token[b, live], next_sibling[b, live] = _links(parents)
        tree_mask[b, live] = _mask(parents, words)

    node_depth, column = np.divmod(place, np.int32(width + 2))
    node_token = topk_token[np.arange(batch)[:, None], node_depth - 1, column - 1]
    node_token[:, 0] = root_token
    position = prefix_len[:, None] + node_depth
    dead = node_parent == -1
    dead[:, 0] = ~active
    for values in (node_token, node_depth, position):
        values[dead] = -1
    return {
        "node_token": node_token,
        "node_parent": node_parent,
        "node_depth": node_depth,
        "position": position,
        "next_token": next_token,
        "next_sibling": next_sibling,
        "tree_mask": tree_mask,
        "node_count": nodes - dead.sum(axis=1, dtype=np.int32),
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


def _mask(parents: list[int], words: int) -> Array:
    """uint32 [count,words]: bit j of row i is set when j is i or an ancestor of i."""
    masks = [1]
    for node in range(1, len(parents)):
        masks.append(masks[parents[node]] | 1 << node)
    packed = b"".join([mask.to_bytes(4 * words, "little") for mask in masks])
    return np.frombuffer(packed, "<u4").reshape(len(parents), words)
