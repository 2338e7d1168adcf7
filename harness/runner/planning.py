"""Which cases of a selection run here, and in what order: a shard of them, the telling ones first."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.errors import HarnessError, UsageProblem
from harness.store.index import CaseSummary

# Optional: a JSON object from "kernel/family" to a number, the more faults it has found the larger.
RANKING = "data/kill_ranking.json"


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


def telling_first(summaries: Sequence[CaseSummary], ranking: Mapping[str, float]) -> list[CaseSummary]:
    """The order for a budget: one case of every family, then a second one of each, and so on.

    Of a family the cheap cases come first. Within a round, families that have found more faults come
    first, and kernels take turns.
    """
    families: dict[str, list[CaseSummary]] = {}
    for summary in summaries:
        families.setdefault(f"{summary.kernel}/{summary.family}", []).append(summary)
    turns: dict[str, int] = {}
    placed: list[tuple[int, float, int, int, CaseSummary]] = []
    for number, name in enumerate(sorted(families, key=lambda name: -ranking.get(name, 0.0))):
        kernel = name.partition("/")[0]
        turn = turns[kernel] = turns.get(kernel, -1) + 1
        for round_, summary in enumerate(sorted(families[name], key=_cost)):
            placed.append((round_, -ranking.get(name, 0.0), turn, number, summary))
    return [entry[-1] for entry in sorted(placed, key=lambda entry: entry[:-1])]


def stored_ranking() -> dict[str, float]:
    """The ranking that lies beside the package; empty where there is none."""
    for folder in harness.__path__:
        path = Path(folder) / RANKING
        if path.is_file():
            try:
                return {str(name): float(value) for name, value in json.loads(path.read_text()).items()}
            except (ValueError, TypeError, AttributeError) as error:
                raise HarnessError(f"{RANKING} is damaged ({error}); remove it or write it again") from error
    return {}


def _cost(summary: CaseSummary) -> int:
    """A number that rises with the work of a case: the product of its sizes."""
    return math.prod(max(1, size) for size in summary.dims.values())
