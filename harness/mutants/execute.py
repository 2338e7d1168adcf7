"""Runs one mutant until every family of its kernels has had its say.

Cases that claim the mutant's class come first and run until one kills it. Of every other family a few cases
run, so that the matrix shows who else would have seen it. A family stops at its first kill.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from harness.case import Case
from harness.contract import KERNELS
from harness.mutants.bench import Bench
from harness.mutants.model import EVERYWHERE, Fate, Kill, Mutant
from harness.results import Outcome
from harness.runner.conclusion import is_refused
from harness.store.index import CaseSummary

_OTHERS = 2  # cases of a family that does not claim the class
_MOST_DEATHS = 2  # dead workers after which only cases that claim the class are tried, until one kills
_UNHARMED = (Outcome.PASS, Outcome.UNSUPPORTED, Outcome.NOT_RUN)


class Cases(Protocol):
    """Where cases come from: a set, or a copy of one in memory."""

    def summaries(self) -> list[CaseSummary]:
        """What is known of every case."""

    def case(self, case_id: str) -> Case:
        """One case."""


def run_mutant(mutant: Mutant, cases: Cases, bench: Bench) -> Fate:
    """Run one mutant. HarnessError where its worker cannot be started or cannot run a case."""
    started, tried = time.monotonic(), 0
    families: dict[str, Kill | None] = {}
    faults: list[str] = []
    bench.put(mutant)
    for family, chosen in ordered(mutant, cases.summaries()):
        for summary in chosen:
            if bench.deaths >= _MOST_DEATHS and not (claims(mutant, summary) and _wanted(mutant, families)):
                break
            families.setdefault(family, None)
            outcome, message = bench.run(cases.case(summary.case_id))
            tried += 1
            if outcome is Outcome.HARNESS_ERROR:
                faults.append(f"{summary.case_id}: {message}")
            elif outcome not in _UNHARMED or is_refused(outcome, message):
                text = " ".join(message.split())[:240]
                families[family] = Kill(summary.case_id, outcome, text, claims(mutant, summary))
                break
    seconds = round(time.monotonic() - started, 3)
    return Fate(mutant, families, tried, seconds, tuple(faults))


def _wanted(mutant: Mutant, families: dict[str, Kill | None]) -> bool:
    """True while another kill by a case that claims the class decides something."""
    return EVERYWHERE in mutant.flags or not any(
        kill is not None and kill.claimed for kill in families.values()
    )


def ordered(mutant: Mutant, summaries: Sequence[CaseSummary]) -> list[tuple[str, list[CaseSummary]]]:
    """Families of the mutant's kernels with the cases to try; those that claim its class first."""
    by_family: dict[str, list[CaseSummary]] = {}
    for summary in summaries:
        if summary.kernel in kernels_of(mutant):
            by_family.setdefault(f"{summary.kernel}/{summary.family}", []).append(summary)
    chosen = {}
    for family, cases in by_family.items():
        claiming = [case for case in cases if claims(mutant, case)]
        chosen[family] = claiming or cases[:_OTHERS]
    return sorted(chosen.items(), key=lambda entry: not claims(mutant, entry[1][0]))


def kernels_of(mutant: Mutant) -> tuple[str, ...]:
    """The kernel itself and the step that is made of it; every kernel where the mutant serves all."""
    if mutant.kernel == EVERYWHERE:
        return tuple(KERNELS)
    return (mutant.kernel,) if EVERYWHERE in mutant.flags else (mutant.kernel, "greedy_step")


def claims(mutant: Mutant, case: CaseSummary) -> bool:
    """True for a case whose flags claim the mutant's class."""
    return EVERYWHERE in mutant.flags or any(flag in case.flags for flag in mutant.flags)
