"""Parameter sets that hold every pair of values, instead of every combination."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

import numpy as np

from harness.cases.base import Params

Axes = Mapping[str, Sequence[int | str]]


def covering(axes: Axes, cost: Callable[[Params], float], ceiling: float) -> list[Params]:
    """Combinations of the ``axes`` that cost at most ``ceiling`` and hold every pair that any such one holds.

    Greedy: next comes the combination with the most pairs that no earlier one has, of those the cheapest, of
    those the first in the order of the product. So the list depends on nothing but the arguments.
    """
    every: list[Params] = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    costs = np.array([cost(params) for params in every])
    rank = np.argsort(costs, kind="stable")
    rank = rank[costs[rank] <= ceiling]
    sizes = [len(values) for values in axes.values()]
    places = np.array(np.unravel_index(rank, sizes)).T
    codes, start = [], 0
    for a, b in combinations(range(len(sizes)), 2):
        codes.append(start + places[:, a] * sizes[b] + places[:, b])
        start += sizes[a] * sizes[b]
    pairs = np.stack(codes, axis=1)
    missing = np.zeros(start, np.bool_)
    missing[pairs] = True
    chosen = []
    while missing.any():
        best = int(missing[pairs].sum(axis=1).argmax())
        missing[pairs[best]] = False
        chosen.append(every[rank[best]])
    return chosen
