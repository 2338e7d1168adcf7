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
    bad = active & _bad_rows(topk_logprob)
    # A node of rank r comes after r siblings, so ranks of ``budget`` and more never enter the tree.
    costs = -topk_logprob[:, :, : max(budget, 1)]

    columns = np.full((6, batch, nodes), -1, np.int32)
    node_count = np.zeros(batch, np.int32)
    tree_mask = np.zeros((batch, nodes, words), np.uint32)
    for b in np.flatnonzero(active).tolist():
        parents, ranked = _best_first(costs[b].tolist(), 0 if bad[b] else budget, width)  # float64, exact
        count, prefix = len(parents), int(prefix_len[b])
        depth = [0] + [candidate // width + 1 for candidate in ranked]
        token = [int(root_token[b]), *topk_token[b].reshape(-1).take(ranked).tolist()]
        positions = [prefix + d for d in depth]
        columns[:, b, :count] = token, parents, depth, positions, *_links(parents)
        tree_mask[b, :count] = _mask(parents, words)
        node_count[b] = count
    node_token, node_parent, node_depth, position, next_token, next_sibling = columns
    return {
        "node_token": node_token,
        "node_parent": node_parent,
        "node_depth": node_depth,
        "position": position,
        "next_token": next_token,
        "next_sibling": next_sibling,
        "tree_mask": tree_mask,
        "node_count": node_count,
        "tree_status": bad.astype(np.int32),
    }


def _bad_rows(logprob: Array) -> Array:
    """Flag [B]: some value is NaN or positive, or some row rises (so -inf may only end a row)."""
    starts = (logprob[:, :, 0] <= 0).all(axis=1)
    falls = (logprob[:, :, :-1] >= logprob[:, :, 1:]).reshape(len(logprob), -1).all(axis=1)  # no NaN
    return np.asarray(~(starts & falls))


def _best_first(costs: list[list[float]], budget: int, width: int) -> tuple[list[int], list[int]]:
    """The root and the ``budget`` best nodes: parents of all, candidates of those behind the root.

    A candidate is numbered (depth - 1) * width + rank. ``costs[d][r]`` is minus the log-prob, so the heap's
    smallest cost is the best score, and +inf is no candidate. Entries are (cost, ranks, parent): ranks are
    unique, so a comparison never goes further. A popped node is replaced by its next sibling and its first
    child; both come later in the order, because a rounded sum never falls when a cost that is no smaller is
    added.
    """
    for row in costs:
        row.append(inf)  # no sibling past the last rank
    costs.append([inf])  # no child past the last depth
    parents, candidates, node_cost = [-1], [], [0.0]
    heap: list[tuple[float, tuple[int, ...], int]] = [(costs[0][0], (0,), 0)]
    for node in range(1, budget + 1):
        cost, ranks, parent = heap[0]
        if cost == inf:
            break
        depth, rank = len(ranks), ranks[-1]
        parents.append(parent)
        candidates.append((depth - 1) * width + rank)
        node_cost.append(cost)
        sibling = node_cost[parent] + costs[depth - 1][rank + 1]
        # Sums of tuples, because (*ranks, 0) makes a list first.
        heapreplace(heap, (sibling, ranks[:-1] + (rank + 1,), parent))  # noqa: RUF005
        heappush(heap, (cost + costs[depth][0], ranks + (0,), node))  # noqa: RUF005
    return parents, candidates


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
