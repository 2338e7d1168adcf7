"""``harness compare``: say whether one target is faster or slower than another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from harness.bench.compare import CompareOptions, compare
from harness.cli import EXIT_CONFORMANCE, EXIT_HARNESS, EXIT_PASS, EXIT_REGRESSION
from harness.cli.finish import check_folder, program, written
from harness.cli.progress import progress_bar
from harness.compare_results import ComparedCase, CompareResults, Standing
from harness.contract import KERNELS
from harness.errors import UsageProblem
from harness.results import Outcome
from harness.runner.naming import report_name

EXIT_UNDECIDED = 125  # `git bisect run` skips a commit on it
_COLOURS = {Standing.FASTER: "green", Standing.SLOWER: "red", Standing.NO_TIMES: "red"}


@click.command("compare")
@click.argument("fixtures", type=click.Path(path_type=Path))
@click.option("--target", "-t", "targets", multiple=True, required=True,
              help="The first is compared against, the second is judged. One beside --baseline.")  # fmt: skip
@click.option("--baseline", type=click.Path(path_type=Path, dir_okay=False),
              help="A bench.json in place of the first target: an indicative verdict.")  # fmt: skip
@click.option("--kernel", "-k", "kernels", type=click.Choice(list(KERNELS)), multiple=True,
              help="Only this kernel (repeatable).")  # fmt: skip
@click.option("--case", "cases", multiple=True, help="Only cases with this id; * and ? match (repeatable).")
@click.option("--samples", type=click.IntRange(min=10), default=CompareOptions.samples, show_default=True,
              help="Samples of each target and case.")  # fmt: skip
@click.option("--min-effect", type=click.FloatRange(min=0.0), default=100 * CompareOptions.min_effect,
              show_default=True, metavar="PERCENT", help="Smaller differences do not count.")  # fmt: skip
@click.option("--fail-on-regression", is_flag=True,
              help="Exit 5 where a case is SLOWER, 125 where one is UNDECIDED.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=CompareOptions.timeout,
              show_default=True, help="Seconds for one request to a worker.")  # fmt: skip
@click.option("--report", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the reports [default: reports/compare-TARGET-SUITE].")  # fmt: skip
def command(
    fixtures: Path, targets: tuple[str, ...], baseline: Path | None, kernels: tuple[str, ...],
    cases: tuple[str, ...], samples: int, min_effect: float, fail_on_regression: bool, timeout: float,
    report: Path | None,
) -> int:  # fmt: skip
    """Compare two targets on the set FIXTURES, with samples taken in turn.

    FASTER, SLOWER: a rank test and the minimum effect agree; SLOWER was found twice. SAME: the interval lies
    within the minimum effect. UNDECIDED: neither. Exit code 0, or 1 where a target was wrong.
    """
    if baseline is not None and fail_on_regression:
        raise UsageProblem("--baseline gives an indicative verdict, which fails nothing; give two targets")
    options = CompareOptions(kernels, cases, samples, min_effect / 100, timeout, baseline)
    check_folder(report or Path("reports"))
    with progress_bar(f"comparing {' and '.join(targets)}") as bar:
        results = compare(fixtures, targets, options, progress=bar, notify=_notify, program=program())
    code, reason = _exit(results, fail_on_regression)
    results = replace(results, exit_code=code, exit_reason=reason)
    for case in results.cases:
        _print(case)
    for note in results.notes:
        click.echo(f"note: {note}")
    folder = report or Path("reports") / f"compare-{report_name(targets[-1], results.run.suite)}"
    path = written(folder / "compare.json", results.to_json(), lambda: _reports(results, folder))
    click.echo(f"report: {path}")
    label = "indicative: " if results.indicative else ""
    counts = ", ".join(f"{count} {name}" for name, count in results.totals.items() if count)
    click.secho(f"{label}{counts} ({results.run.seconds:.1f} s)", fg="red" if code else "green", bold=True)
    return code


def _exit(results: CompareResults, fail: bool) -> tuple[int, str]:
    """The exit code and why. A wrong target is a failure with and without the flag."""
    bad = [c for c in results.cases if c.standing is Standing.NO_TIMES]
    if any(c.outcome is Outcome.HARNESS_ERROR for c in bad):
        return EXIT_HARNESS, "a comparison failed in the harness"
    if any(c.outcome not in (Outcome.UNSUPPORTED, Outcome.NOT_RUN) for c in bad):
        return EXIT_CONFORMANCE, "a target was wrong or died"
    if len(bad) == len(results.cases):
        return EXIT_CONFORMANCE, "nothing was compared"
    if fail and results.totals[Standing.SLOWER]:
        return EXIT_REGRESSION, f"{results.totals[Standing.SLOWER]} SLOWER"
    if fail and results.totals[Standing.UNDECIDED]:
        return EXIT_UNDECIDED, f"{results.totals[Standing.UNDECIDED]} UNDECIDED"
    return EXIT_PASS, ""


def _print(case: ComparedCase) -> None:
    standing = click.style(f"{case.standing:<9}", fg=_COLOURS.get(case.standing))
    click.echo(f"{standing} {case.case_id} ({case.cache}): {case.reason}")
    for found in case.differences:
        gap = "" if found.largest is None else f", at most {found.largest:.3g}"
        click.echo(f"          {found.array}: {found.differing} of {found.total} elements differ{gap}")


def _notify(line: str) -> None:
    click.echo(f"harness: {line}", err=True)


def _reports(results: CompareResults, folder: Path) -> tuple[Path, ...]:
    from harness.report.compare import write_compare

    return write_compare(results, folder)
