"""Parameter sets of the suites: every suite holds the smaller ones, so a case's id never depends on one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from harness.cases.base import SUITES, Params


def grid(**axes: Iterable[int | str]) -> list[Params]:
    """Every combination of the axes; the last one varies fastest."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def tiers(
    smoke: Iterable[Params], standard: Iterable[Params] = (), full: Iterable[Params] = ()
) -> Callable[[str], Iterator[Params]]:
    """The ``plan`` of a family: ``standard`` adds to ``smoke``, ``full`` to both; repeats are dropped."""
    added = (list(smoke), list(standard), list(full))

    def plan(suite: str) -> Iterator[Params]:
        seen: list[Params] = []
        for tier in added[: SUITES.index(suite) + 1]:
            for params in tier:
                if params not in seen:
                    seen.append(params)
                    yield params

    return plan
