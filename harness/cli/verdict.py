"""What ``harness verify`` prints at the end: a table by kernel, the first failures, one line of verdict."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from harness.results import CaseResult, Outcome, Results
from harness.runner.conclusion import is_refused, shard_of

MAX_SHOWN = 10
_QUIET = (Outcome.PASS, Outcome.UNSUPPORTED, Outcome.WAIVED, Outcome.NOT_RUN)


def print_verdict(results: Results, report: Path | None) -> None:
    """The table and the verdict on stdout."""
    click.echo(f"{results.target.name}: {results.target.description} ({results.target.memory} memory)")
    for row in _table(results):
        click.echo(row)
    bad = [c for c in results.cases if c.outcome not in _QUIET or is_refused(c.outcome, c.message)]
    for case in bad[:MAX_SHOWN]:
        _print_failure(case, results)
    if len(bad) > MAX_SHOWN:
        click.echo(f"\n{len(bad) - MAX_SHOWN} more failures in the report")
    unsupported = Counter(
        (c.kernel, c.message)
        for c in results.cases
        if c.outcome is Outcome.UNSUPPORTED and not is_refused(c.outcome, c.message)
    )
    for (kernel, message), count in unsupported.most_common(MAX_SHOWN):
        click.echo(f"UNSUPPORTED {kernel} ({count}): {message}")
    waived = Counter(
        (c.kernel, c.message.partition("; was ")[0]) for c in results.cases if c.outcome is Outcome.WAIVED
    )
    for (kernel, message), count in waived.items():
        click.echo(f"WAIVED {kernel} ({count}): {message}")
    left = [c for c in results.cases if c.outcome is Outcome.NOT_RUN]
    if left:
        click.echo(f"NOT_RUN ({len(left)}): {left[0].message}")
    for note in results.notes:
        click.echo(f"note: {note}")
    if report is not None:
        click.echo(f"report: {report}")
    verdict = f"FAIL: {results.exit_reason}" if results.exit_reason else "PASS"
    if unsupported:
        verdict += f", {sum(unsupported.values())} of {results.planned} cases not served"
    if results.left:
        verdict += f", {results.left} of {results.planned} cases not run"
    if shard_of(results):
        verdict += f", shard {shard_of(results)} only"
    seconds = f"{results.run.seconds:.1f} s"
    if results.cases_per_second is not None:
        seconds += f", {results.cases_per_second:,.0f} cases a second from the first result to the last"
    click.secho(f"{verdict} ({seconds})", fg="red" if results.exit_reason else "green", bold=True)


def _print_failure(case: CaseResult, results: Results) -> None:
    click.echo()
    click.secho(f"{case.outcome} {case.case_id}", fg="red", bold=True)
    click.echo(f"  {case.message}")
    for flag in case.flags:
        if flag in results.flags:
            click.echo(f"  {flag}: {results.flags[flag]['probes']}")
    click.echo(f"  {case.reproduce}")


def _table(results: Results) -> list[str]:
    """Kernel by outcome, with the worst share of an allowance and the seconds in the target."""
    kernels = list(dict.fromkeys(c.kernel for c in results.cases))
    outcomes = [o for o in Outcome if results.totals[o]]
    time = {"event": "event time", "emulated": "emulated"}.get(results.target.timing, "host time")
    rows = [["kernel", *map(str, outcomes), "worst share", time]]
    for kernel in kernels:
        mine = [c for c in results.cases if c.kernel == kernel]
        counts = Counter(c.outcome for c in mine)
        share = max((c.share for c in mine if c.share is not None), default=None)
        seconds = sum(c.seconds or 0.0 for c in mine)
        rows.append(
            [
                kernel,
                *(str(counts[o]) if counts[o] else "-" for o in outcomes),
                "exact" if share is None else f"{share:.3f}",
                f"{seconds:.3f} s",
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
