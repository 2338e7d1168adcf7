"""Ways to build a draft tree that look right: each fails on the family made against it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from harness.case import AnyArray, Case, materialize

Ranks = tuple[int, ...]


def rank_tuples(case: Case, request: int) -> list[Ranks]:
    """Rank tuples of the expected nodes, root left out, in node order."""
    token = materialize(case.inputs["topk_token"])[request]
    out = {
        name: materialize(case.expected[name])[request]
        for name in ("node_token", "node_parent", "node_depth")
    }
    nodes: list[Ranks] = [()]
    for i in range(1, int(materialize(case.expected["node_count"])[request])):
        row = token[out["node_depth"][i] - 1].tolist()
        nodes.append((*nodes[out["node_parent"][i]], row.index(int(out["node_token"][i]))))
    return nodes[1:]


def heap(
    rows: AnyArray,
    budget: int,
    *,
    value: Callable[[np.float32], Any] = float,
    start: Any = 0.0,
    join: Callable[[Any, Any], Any] = lambda score, step: score + step,
    tie: str = "ranks",
    difference: bool = False,
) -> list[Ranks]:
    """Best-first search with another number type, another tie rule or a running difference for siblings."""
    order = count()
    steps = [[value(x) for x in row[: row.shape[0] - int(np.isneginf(row).sum())]] for row in rows]
    queue: list[tuple[Any, Any, Ranks, Any, Any]] = []

    def push(ranks: Ranks, parent: Any, score: Any) -> None:
        key: Any = ranks if tie == "ranks" else next(order)
        heappush(queue, (-score, key, ranks, score, parent))

    if steps[0]:
        push((0,), start, join(start, steps[0][0]))
    nodes: list[Ranks] = []
    while queue and len(nodes) < budget:
        _, _, ranks, score, parent = heappop(queue)
        nodes.append(ranks)
        level, rank = len(ranks) - 1, ranks[-1]
        if rank + 1 < len(steps[level]):
            sibling = join(parent, steps[level][rank + 1])
            if difference:
                sibling = score - steps[level][rank] + steps[level][rank + 1]
            push((*ranks[:-1], rank + 1), parent, sibling)
        if level + 1 < len(steps) and steps[level + 1]:
            push((*ranks, 0), score, join(score, steps[level + 1][0]))
    return nodes


def scores(rows: AnyArray, nodes: list[Ranks]) -> list[float]:
    """Float64 sums of log-probs, left to right."""
    return [sum((float(rows[level, rank]) for level, rank in enumerate(ranks)), 0.0) for ranks in nodes]


def float32_sums(rows: AnyArray, budget: int) -> list[Ranks]:
    return heap(rows, budget, value=np.float32, start=np.float32(0))


def products(rows: AnyArray, budget: int) -> list[Ranks]:
    """Probabilities multiplied in float32."""
    return heap(rows, budget, value=np.exp, start=np.float32(1), join=lambda score, p: np.float32(score * p))


def fixed_point(rows: AnyArray, budget: int) -> list[Ranks]:
    """Integers in units of 2^-20, truncated."""
    return heap(rows, budget, value=lambda x: int(float(x) * 2**20), start=0)


def rank_capped(rows: AnyArray, budget: int) -> list[Ranks]:
    """Level by level with exact sums and ties; the i-th node of a level keeps budget // (i + 1) children.

    Right for exact sums: i better parents of rank r or less would fill the budget first.
    """
    level: list[tuple[float, Ranks]] = [(0.0, ())]
    found: list[tuple[float, Ranks]] = []
    for row in rows:
        width = row.shape[0] - int(np.isneginf(row).sum())
        level = sorted(
            (cost - float(row[r]), (*ranks, r))
            for i, (cost, ranks) in enumerate(level)
            for r in range(min(width, budget // (i + 1)))
        )[:budget]
        found += level
    return [ranks for _, ranks in sorted(found)[:budget]]
