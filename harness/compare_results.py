"""The truth of a comparison: `compare.json`. Times are seconds of one call; ratios are second over first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.bench_results import Arrangement, quantile
from harness.results import Environment, Outcome, RunInfo, TargetInfo
from harness.typed_json import build, load

COMPARE_SCHEMA = "ddtree-compare"
COMPARE_VERSION = 1


class Standing(StrEnum):
    """The second target against the first."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    UNDECIDED = "UNDECIDED"
    NO_TIMES = "NO_TIMES"  # a target was wrong, refused or died


@dataclass(frozen=True)
class Difference:
    """How the outputs of the two targets differ in one array, element by element."""

    array: str
    differing: int
    total: int
    largest: float | None  # largest finite difference of values; None for integers
    first: tuple[int, ...]  # where the first difference stands


@dataclass(frozen=True)
class ComparedCase:
    """One case under one state of the cache."""

    case_id: str
    kernel: str
    cache: str
    standing: Standing
    reason: str  # one line
    ratio: float | None  # estimate: how many times as long the second takes
    low: float | None
    high: float | None
    p: float | None  # two-sided rank test
    first: tuple[float, ...]  # samples, in the order in which they were taken, in turn with those of `second`
    second: tuple[float, ...]
    confirmed: bool  # a rerun of SLOWER said so too
    arrangement: Arrangement | None
    differences: tuple[Difference, ...]
    outcome: Outcome = Outcome.PASS  # of the target that could not be timed
    culprit: str = ""

    @property
    def first_median(self) -> float:
        """The middle of the first target's samples."""
        return quantile(self.first, 0.5)

    @property
    def second_median(self) -> float:
        """The middle of the second target's samples."""
        return quantile(self.second, 0.5)


@dataclass(frozen=True)
class CompareResults:
    """One comparison. ``indicative``: the first side is a stored file, taken at another time."""

    run: RunInfo
    environment: Environment
    first: TargetInfo
    second: TargetInfo
    indicative: bool
    min_effect: float  # a part, 0.02 is two percent
    planned: int
    cases: tuple[ComparedCase, ...]
    notes: tuple[str, ...] = ()
    exit_code: int | None = None
    exit_reason: str = ""

    @property
    def totals(self) -> dict[str, int]:
        """Comparisons by standing, every standing named."""
        counted = Counter(case.standing for case in self.cases)
        return {str(standing): counted.get(standing, 0) for standing in Standing}

    def to_json(self) -> str:
        """The JSON text of ``compare.json``."""
        head = {"schema": COMPARE_SCHEMA, "schema_version": COMPARE_VERSION, "totals": self.totals}
        body = {**head, **asdict(self), "environment": dict(self.environment.facts)}
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load_compare(path: Path) -> CompareResults:
    """Read ``compare.json``. UsageProblem where it is not one of a known version, or damaged."""
    return load(path, COMPARE_SCHEMA, COMPARE_VERSION, "harness compare", "comparison file", _from_body)


def _from_body(body: Mapping[str, Any]) -> CompareResults:
    fields = {k: v for k, v in body.items() if k not in ("schema", "schema_version", "totals")}
    made: CompareResults = build(CompareResults, {**fields, "environment": {"facts": body["environment"]}})
    if body["totals"] != made.totals:
        raise ValueError("the totals are not those of the cases")
    if made.min_effect < 0:
        raise ValueError("the smallest effect that counts is negative")
    for case in made.cases:
        interval = [value is not None for value in (case.ratio, case.low, case.high)]
        timed = [bool(case.first), bool(case.second), *interval]
        if any(timed) and not all(timed):
            raise ValueError(f"{case.case_id}: samples and interval do not fit each other")
    return made
