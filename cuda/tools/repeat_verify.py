#!/usr/bin/env python3
"""Verify one fixture set many times, and write one summary: how often do right kernels raise an alarm?

Each run is a `harness verify` of its own, with fresh workers. The last runs of an emulated target may take
random thread orders, from the seeds 1, 2, ... Writes OUT.json and OUT.md after every run: an early end loses
nothing. Exit code: 0 no alarm, 1 an alarm, 2 a wrong use, 4 a target or set that cannot be opened.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # from a source tree, installed or not

from harness import verify
from harness.errors import HarnessError, UsageProblem
from harness.results import CaseResult, Outcome, Results

EXIT_QUIET, EXIT_ALARM, EXIT_USAGE, EXIT_ENVIRONMENT = 0, 1, 2, 4


@dataclass(frozen=True)
class Run:
    """What one verify came to. ``share`` is the largest part of an allowance that a case used."""

    number: int
    time: str
    order: str
    seconds: float
    cases: int
    passed: int
    alarms: tuple[str, ...]  # cases that did not pass: id, outcome, message
    exit_reason: str
    share: float
    share_case: str
    set_sha256: str
    library_sha256: str
    notes: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them all; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("--target", "-t", required=True, help="as for `harness verify`")
    parser.add_argument("--runs", type=int, default=20, help="[default: %(default)s]")
    parser.add_argument("--random", type=int, default=0, help="how many take a random thread order")
    parser.add_argument("--jobs", "-j", type=int, help="worker processes, as for `harness verify`")
    parser.add_argument("--out", type=Path, required=True, help="the summary, without ending")
    given = parser.parse_args(arguments)
    if not 0 <= given.random <= given.runs or given.runs < 1:
        parser.error("--runs is at least 1, and --random is no more of them")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    try:
        for number, order in enumerate(orders(given.runs, given.random), 1):
            results = verify(given.fixtures, given.target, order=order, jobs=given.jobs)
            runs.append(run_of(number, results))
            body = summary(runs, given.runs, results)
            write(given.out, body)
            print(line(runs[-1]), flush=True)
    except (HarnessError, OSError) as error:
        print(f"repeat_verify: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageProblem) else EXIT_ENVIRONMENT
    print(f"{body['verdict']}: {given.out}.md")
    return EXIT_ALARM if body["totals"]["alarms"] else EXIT_QUIET


def orders(runs: int, random: int) -> list[str | None]:
    """Thread orders, by run; None is what verify does by itself: under the emulator forward, then reverse."""
    return [None] * (runs - random) + [f"random:{seed}" for seed in range(1, random + 1)]


def run_of(number: int, results: Results) -> Run:
    """One run, boiled down."""
    passed = [case for case in results.cases if case.outcome is Outcome.PASS]
    usual = "forward, reverse" if results.target.timing == "emulated" else "its own"
    worst = max(passed, key=lambda case: case.share or 0.0, default=None)
    return Run(
        number=number,
        time=results.run.time,
        order=str(results.run.options["order"] or usual),
        seconds=results.run.seconds,
        cases=len(results.cases),
        passed=len(passed),
        alarms=tuple(alarm(case) for case in results.cases if case.outcome is not Outcome.PASS),
        exit_reason=results.exit_reason,
        share=round(worst.share or 0.0, 6) if worst else 0.0,
        share_case=worst.case_id if worst else "",
        set_sha256=results.run.fixture_hash,
        library_sha256=results.target.library_sha256 or "",
        notes=results.notes,
    )


def alarm(case: CaseResult) -> str:
    """One line on a case that did not pass."""
    return f"{case.case_id}: {case.outcome} {' '.join(case.message.split())[:200]}".rstrip()


def summary(runs: Sequence[Run], planned: int, last: Results) -> dict[str, Any]:
    """The body of OUT.json. A run that covers another set or library than the first is an alarm too."""
    worst = max(runs, key=lambda run: run.share)
    same = len({(run.set_sha256, run.library_sha256, run.cases) for run in runs}) == 1
    alarms = sum(bool(run.alarms or run.exit_reason) for run in runs) + (not same)
    seconds = [run.seconds for run in runs]
    return {
        "schema": "ddtree-repeated",
        "schema_version": 1,
        "verdict": "FAIL" if alarms else "no alarm" if len(runs) == planned else "unfinished, no alarm",
        "target": asdict(last.target),
        "environment": dict(last.environment.facts),
        "fixtures": last.run.fixtures,
        "jobs": last.run.options["jobs"],
        "totals": {
            "planned": planned,
            "runs": len(runs),
            "alarms": alarms,
            "cases": sum(run.cases for run in runs),
            "passed": sum(run.passed for run in runs),
            "seconds": round(sum(seconds), 3),
            "fastest": min(seconds),
            "slowest": max(seconds),
            "share": worst.share,
            "share_case": worst.share_case,
            "one_set_and_library": same,
        },
        "runs": [asdict(run) for run in runs],
    }


def line(run: Run) -> str:
    """One run on one line."""
    verdict = run.exit_reason or "PASS"
    return f"{run.number:3} {run.order:17} {run.passed} of {run.cases} in {run.seconds:.1f} s: {verdict}"


def write(out: Path, body: dict[str, Any]) -> None:
    """OUT.json and OUT.md."""
    for ending, text in ((".json", json.dumps(body, indent=1) + "\n"), (".md", markdown(body))):
        beside = out.with_name(f".{out.name}{ending}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(out.with_name(out.name + ending))


def markdown(body: dict[str, Any]) -> str:
    """The same for people."""
    totals, target = body["totals"], body["target"]
    orders = Counter(run["order"] for run in body["runs"])
    lines = [
        f"# {totals['runs']} runs of {body['fixtures']} on `{target['name']}`: {body['verdict']}",
        "",
        f"{totals['passed']} of {totals['cases']} cases passed in {totals['runs']} of "
        f"{totals['planned']} runs with {body['jobs']} workers; "
        f"{totals['seconds']:.0f} s in all, {totals['fastest']:.1f} to {totals['slowest']:.1f} s a run. "
        f"Largest share of an allowance: {totals['share']:.3f}, `{totals['share_case']}`.",
        "",
        f"Set `{body['runs'][0]['set_sha256'][:16]}`, library `{body['runs'][0]['library_sha256'][:16]}`, "
        f"{'the same in every run' if totals['one_set_and_library'] else 'NOT the same in every run'}. "
        f"{target['description']}. "
        + "; ".join(f"{name}: {value}" for name, value in body["environment"].items())
        + ".",
        "",
        "Thread orders: " + ", ".join(f"{order} ({count})" for order, count in orders.items()) + ".",
        "",
        "| run | started | thread order | cases | passed | s | worst share | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in body["runs"]:
        verdict = run["exit_reason"] or "PASS"
        lines.append(
            f"| {run['number']} | {run['time']} | {run['order']} | {run['cases']} | {run['passed']} "
            f"| {run['seconds']:.1f} | {run['share']:.3f} | {verdict} |"
        )
    found = [f"* run {run['number']}: {text}" for run in body["runs"] for text in run["alarms"]]
    notes = sorted({note for run in body["runs"] for note in run["notes"]})
    lines += ["", *found] if found else []
    lines += ["", *(f"* {note}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
