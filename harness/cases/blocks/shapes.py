"""Draft trees as lists of parents, and what follows from them: links, paths, tokens, predictions.

A tree of n nodes is ``parents`` int64 [n] with parents[0] = -1 and parents[i] < i.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.cases.blocks.topk import VOCABULARY, build_inputs, grid_rows
from harness.draw import Draw
from harness.stacked import Asked, Asking, run_together

I64 = npt.NDArray[np.int64]
SHAPES = ("chain", "star", "comb", "binary", "random", "depth_first", "best")


def tree(draw: Draw, shape: str, count: int) -> I64:
    """Parents int64 [count].

    ``comb``: a spine with one leaf at each node. ``random``: any earlier node is the parent. ``depth_first``:
    a random tree numbered in depth-first order. ``best``: as tree_build makes it, in best-first order.
    """
    at = np.arange(count)
    if shape == "chain" or count == 1:
        parents = at - 1
    elif shape == "star":
        parents = np.minimum(at - 1, 0)
    elif shape == "comb":
        parents = np.maximum((at - 1) // 2 * 2 - 1, 0)
    elif shape == "binary":
        parents = (at - 1) // 2
    elif shape == "random":
        parents = np.append(-1, _any_before(draw, count))
    elif shape == "depth_first":
        parents = _depth_first(np.append(-1, _any_before(draw, count)))
    else:
        (parents,) = run_together([best_first(draw, count)])
    parents[0] = -1
    return parents.astype(np.int64)


def _any_before(draw: Draw, count: int) -> I64:
    """For i = 1..count-1 an integer in [0, i)."""
    return draw.below(1 << 20, count - 1) * np.arange(1, count) >> 20


def _depth_first(parents: I64) -> I64:
    order: list[int] = []
    stack = [0]
    below = children(parents)
    while stack:
        node = stack.pop()
        order.append(node)
        stack += reversed(below[node])
    number = np.empty(len(parents), np.int64)
    number[order] = np.arange(len(parents))
    return np.append(-1, number[parents[np.array(order[1:], np.int64)]])


def best_first(draw: Draw, count: int) -> Asking[I64]:
    """Parents of the tree that tree_build makes from mixed rows, int64 [count]."""
    rows = grid_rows(draw, (1, 12, 12), "mixed")
    built = yield Asked("tree_build", build_inputs(draw, rows), {"budget": count - 1})
    parents: I64 = built["node_parent"][0].astype(np.int64)
    return parents


def children(parents: I64) -> list[list[int]]:
    """Children of every node, rising."""
    below: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            below[parent].append(node)
    return below


def links(parents: I64) -> tuple[I64, I64]:
    """``next_token`` (first child) and ``next_sibling`` int64 [n], -1 for none."""
    child, sibling = [-1] * len(parents), [-1] * len(parents)
    for node, parent in reversed(list(enumerate(parents.tolist()))):
        if parent >= 0:
            sibling[node], child[parent] = child[parent], node
    return np.array(child, np.int64), np.array(sibling, np.int64)


def depths(parents: I64) -> I64:
    """Depth of every node, int64 [n], 0 for the root."""
    depth = [0] * len(parents)
    for node, parent in enumerate(parents.tolist()):
        depth[node] = depth[parent] + 1 if parent >= 0 else 0
    return np.array(depth, np.int64)


def path_to(parents: I64, node: int) -> list[int]:
    """Nodes from the root to ``node``, both included."""
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, int(parents[path[0]]))
    return path


def follow(draw: Draw, parents: I64, token: I64, percent: int) -> I64:
    """The target's predictions int64 [n]: ``percent`` of the nodes follow one of their children.

    The others, and leaves, predict the token of any node of the tree (half of them) or any token.
    """
    count, tokens = len(parents), token.tolist()
    bounds = (100, count, VOCABULARY, 1 << 20, 100)
    drawn = draw.below(bounds if count > 1 else bounds[:3], (5 if count > 1 else 3, count)).tolist()
    predict = [tokens[of] if half < 50 else fresh for half, of, fresh in zip(*drawn[:3], strict=True)]
    if count > 1:
        for node, (family, pick, share) in enumerate(zip(children(parents), *drawn[3:], strict=True)):
            if family and share < percent:
                predict[node] = tokens[family[pick * len(family) >> 20]]
    return np.array(predict, np.int64)


def steer(predict: I64, token: I64, path: list[int], after: int) -> None:
    """Make the target agree with ``path`` (root first) and predict ``after`` at its end, in place."""
    for node, child in pairwise(path):
        predict[node] = token[child]
    predict[path[-1]] = after
