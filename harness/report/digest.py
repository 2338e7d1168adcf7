"""What a report says, before any format: the verdict, the groups and the figures of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Literal

from harness.report.text import count
from harness.results import CaseResult, Outcome, Results

Standing = Literal["pass", "fail", "error", "skip"]

MEANINGS: dict[Outcome, str] = {
    Outcome.PASS: "every output within its policy",
    Outcome.WRONG_VALUES: "an output differs from the reference by more than its policy allows",
    Outcome.WRONG_SHAPE: "an output has another shape or type than the contract says",
    Outcome.UNWRITTEN: "an output element was left as it was before the call",
    Outcome.GUARD_HIT: "bytes outside the outputs were written",
    Outcome.INPUT_MUTATED: "an input changed during the call",
    Outcome.NONDETERMINISTIC: "two runs of the same case gave different bytes",
    Outcome.CRASH: "the process that ran the target died",
    Outcome.TIMEOUT: "the target did not return in time",
    Outcome.BUILD_ERROR: "the target could not be built or loaded",
    Outcome.UNSUPPORTED: "the target says that it does not serve this case",
    Outcome.WAIVED: "a known failure, waived with a reason",
    Outcome.XPASS: "a waived case passes: remove the waiver",
    Outcome.NOT_RUN: "planned, but never executed",
    Outcome.HARNESS_ERROR: "the harness itself failed on this case",
}
EXIT_MEANINGS = {
    0: "all pass",
    1: "a conformance failure",
    2: "a usage error",
    3: "a damaged or unknown fixture set",
    4: "an unusable environment",
    5: "a performance regression",
    6: "a harness error",
}
TIMING_LABELS = {
    "event": "Event time on the device, one call each.",
    "emulated": "Emulated: no performance figure. The times only say where this run spent itself.",
    "host clock": "Host clock around one call each: launch and synchronisation are included.",
}
_STANDINGS: dict[Outcome, Standing] = {
    Outcome.PASS: "pass",
    Outcome.UNSUPPORTED: "skip",
    Outcome.WAIVED: "skip",
    Outcome.NOT_RUN: "error",
    Outcome.HARNESS_ERROR: "error",
}


def standing(outcome: Outcome, budget: bool = False) -> Standing:
    """How an outcome counts: NOT_RUN and HARNESS_ERROR are errors, UNSUPPORTED and WAIVED skips.

    Under a ``budget`` NOT_RUN is a skip.
    """
    if budget and outcome is Outcome.NOT_RUN:
        return "skip"
    return _STANDINGS.get(outcome, "fail")


@dataclass(frozen=True)
class Group:
    """Cases that belong together: a kernel or a family of one."""

    name: str
    cases: tuple[CaseResult, ...]
    budget: bool = False  # whether NOT_RUN means that a budget was used, which is nobody's fault

    @cached_property
    def counts(self) -> dict[Standing, int]:
        """Cases by standing, every standing named."""
        counts: dict[Standing, int] = {"pass": 0, "fail": 0, "error": 0, "skip": 0}
        for case in self.cases:
            counts[standing(case.outcome, self.budget)] += 1
        return counts

    @property
    def standing(self) -> Standing:
        """The gravest standing in the group; skip only where nothing passes."""
        gravity: tuple[Standing, ...] = ("fail", "error", "pass", "skip")
        return next((s for s in gravity if self.counts[s]), "skip")

    @cached_property
    def worst_share(self) -> float | None:
        """The largest share of an allowance in the group; None where all is exact."""
        return max((case.share for case in self.cases if case.share is not None), default=None)

    @property
    def policy(self) -> str:
        """The policy of the group's cases: the first, families do not mix them."""
        return self.cases[0].policy if self.cases else ""

    @cached_property
    def times(self) -> tuple[float, ...]:
        """Seconds of the cases that pass, rising: a wrong answer has no time."""
        return tuple(sorted(c.seconds for c in self.passes if c.seconds is not None))

    @property
    def median(self) -> float | None:
        """The median of `times`."""
        return median(self.times) if self.times else None

    @property
    def passes(self) -> tuple[CaseResult, ...]:
        """The cases that pass."""
        return tuple(case for case in self.cases if case.outcome is Outcome.PASS)

    def families(self) -> list[Group]:
        """The group by family."""
        return grouped(self.cases, lambda case: case.family, self.budget)


def grouped(
    cases: Iterable[CaseResult], key: Callable[[CaseResult], str], budget: bool = False
) -> list[Group]:
    """Cases by ``key``, in order of first appearance."""
    found: dict[str, list[CaseResult]] = {}
    for case in cases:
        found.setdefault(key(case), []).append(case)
    return [Group(name, tuple(members), budget) for name, members in found.items()]


def whole(results: Results) -> Group:
    """All cases of a run."""
    return Group("", results.cases, bool(results.left))


def kernels(results: Results) -> list[Group]:
    """The cases by kernel."""
    return grouped(results.cases, lambda case: case.kernel, bool(results.left))


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees."""

    good: bool
    headline: str
    tally: str
    exit_code: int
    exit_meaning: str


def failing(results: Results) -> list[CaseResult]:
    """Everything that is wrong: failures first, then what the harness or nobody ran."""
    order = ("fail", "error")
    wrong = [case for case in results.cases if standing(case.outcome, bool(results.left)) in order]
    return sorted(wrong, key=lambda case: (order.index(standing(case.outcome)), case.outcome == "NOT_RUN"))


def lost(results: Results) -> int:
    """Planned cases without any result."""
    return max(0, results.planned - len(results.cases))


def verdict(results: Results) -> Verdict:
    """The headline, the tally and the meaning of the exit code."""
    counts = whole(results).counts
    total = max(results.planned, len(results.cases))
    wrong = counts["fail"] + counts["error"] + lost(results)
    code = results.exit_code
    if code is None:
        code = 6 if results.totals[Outcome.HARNESS_ERROR] else 1 if wrong or not counts["pass"] else 0
    if wrong:
        headline = f"{wrong:,} of {count(total, 'case')} {'does' if wrong == 1 else 'do'} not pass"
    elif victims := sum(1 for case in results.cases if case.suspect):
        headline = f"Workers died in {count(victims, 'case')} after another case"
    elif counts["pass"] == 0:
        headline = "No case passes"
    elif counts["skip"]:
        headline = f"{counts['pass']:,} of {count(total, 'case')} pass"
        if results.left:
            headline += f", {results.left:,} not run"
    else:
        headline = "The one case passes" if total == 1 else f"All {count(total, 'case')} pass"
    meaning = EXIT_MEANINGS.get(code, "unknown")
    if results.exit_reason:
        meaning += f": {results.exit_reason}"
    return Verdict(
        good=code == 0 and not wrong,
        headline=headline,
        tally=f"{counts['pass']:,} of {total:,} PASS",
        exit_code=code,
        exit_meaning=meaning,
    )


def facts(results: Results) -> list[tuple[str, str]]:
    """The run in a few named facts."""
    run, target, rate = results.run, results.target, results.cases_per_second
    rows = [
        ("Target", f"{target.name} — {target.description}" if target.description else target.name),
        ("Fixtures", f"{run.fixtures} (suite {run.suite})"),
        ("Fixture hash", run.fixture_hash[:20]),
        ("Contract", run.contract_version),
        ("Harness", run.harness_version),
        ("Time", run.time),
        ("Duration", f"{run.seconds:,.1f} s"),
        ("Rate", "" if rate is None else f"{rate:,.0f} cases a second from the first result to the last"),
        ("Command", run.command),
    ]
    return [(name, value) for name, value in rows if value]
