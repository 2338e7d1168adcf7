"""Which cases of a selection run here, and in what order: a shard of them, the telling ones first."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UsageProblem
from harness.store.index import CaseSummary


@dataclass(frozen=True)
class Shard:
    """Part ``index`` (from 1) of ``count``."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, summaries: Sequence[CaseSummary]) -> list[CaseSummary]:
        """Every ``count``-th case from the ``index``-th on: a part of every family. UsageProblem if empty."""
        mine = list(summaries[self.index - 1 :: self.count])
        if not mine:
            raise UsageProblem(f"--shard {self} is empty: {len(summaries)} cases are selected")
        return mine


def parse_shard(text: str) -> Shard:
    """``i/n`` as a shard; UsageProblem for anything else."""
    found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    shard = Shard(int(found[1]), int(found[2])) if found else None
    if shard is None or shard.index > shard.count:
        raise UsageProblem(f"--shard is {text!r}; give i/n with 1 <= i <= n, like 2/4")
    return shard


def telling_first(summaries: Sequence[CaseSummary]) -> list[CaseSummary]:
    """The order for a budget: each case is the one that shows most which none before it has shown.

    What a case shows is its family and its flags. Kernels that no case has shown go first, since a kernel
    without a pass fails the run; of equals the cheap one comes first. When everything has been shown once,
    it begins anew with the cases that are left.
    """
    alike: dict[tuple[str, frozenset[str]], list[CaseSummary]] = {}
    for summary in sorted(summaries, key=_cost):
        shows = frozenset((summary.kernel, f"{summary.kernel}/{summary.family}", *summary.flags))
        alike.setdefault((summary.kernel, shows), []).append(summary)
    order: list[CaseSummary] = []
    shown: set[str] = set()
    while alike:
        best = max(alike, key=lambda entry: (entry[0] not in shown, len(entry[1] - shown)))
        if best[1] <= shown:
            shown.clear()
            continue
        shown |= best[1]
        order.append(alike[best].pop(0))
        if not alike[best]:
            del alike[best]
    return order


def _cost(summary: CaseSummary) -> int:
    """A number that rises with the work of a case: the product of its sizes."""
    return math.prod(max(1, size) for size in summary.dims.values())
