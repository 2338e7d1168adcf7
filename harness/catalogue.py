"""Machine-readable lists: the cases of a set, the families, the flags. Rows are plain JSON objects."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from harness.cases import FAMILIES
from harness.cases.base import SUITES
from harness.errors import UsageProblem
from harness.flags import FLAGS
from harness.store import FixtureSet

Row = dict[str, Any]


def case_rows(fixtures: FixtureSet, kernel: str | None = None, flag: str | None = None) -> list[Row]:
    """One row per case: case_id, kernel, family, flags, policy, validity, seed, hashes, dims."""
    if flag is not None and flag not in FLAGS:
        raise UsageProblem(f"unknown flag {flag!r}; `harness list --flags` names them")
    summaries = fixtures.summaries(kernel)
    return [asdict(summary) for summary in summaries if flag is None or flag in summary.flags]


def family_rows(kernel: str | None = None) -> list[Row]:
    """One row per family: kernel, family, doc, and how many cases each suite plans."""
    return [
        {
            "kernel": family.kernel,
            "family": family.name,
            "doc": " ".join(family.doc.split()),
            "cases": {suite: sum(1 for _ in family.plan(suite)) for suite in SUITES},
        }
        for family in FAMILIES
        if kernel in (None, family.kernel)
    ]


def flag_rows(fixtures: FixtureSet | None = None) -> list[Row]:
    """One row per flag: flag, what it probes, the effect on a user, and in a set how many cases carry it."""
    rows: list[Row] = [{"flag": name, **asdict(flag)} for name, flag in sorted(FLAGS.items())]
    if fixtures is not None:
        counts = Counter(flag for summary in fixtures.summaries() for flag in summary.flags)
        rows = [{**row, "cases": counts[row["flag"]]} for row in rows]
    return rows
