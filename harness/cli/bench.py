"""``harness bench``: time a target's kernels next to what they must take at least."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from harness.bench.run import BenchOptions, bench
from harness.bench_results import BenchCase, BenchResults
from harness.cli import EXIT_CONFORMANCE, EXIT_HARNESS, EXIT_PASS
from harness.cli.finish import check_folder, program, written
from harness.cli.progress import progress_bar
from harness.contract import KERNELS
from harness.results import Outcome
from harness.runner.naming import report_name

MAX_SHOWN = 60
MAX_NAME = 100  # characters of a kernel's name


@click.command("bench")
@click.argument("fixtures", type=click.Path(path_type=Path))
@click.option("--target", "-t", required=True, help="reference, cpu, cuda, PATH.so, or module:Class.")
@click.option("--kernel", "-k", "kernels", type=click.Choice(list(KERNELS)), multiple=True,
              help="Only this kernel (repeatable).")  # fmt: skip
@click.option("--case", "cases", multiple=True, help="Only cases with this id; * and ? match (repeatable).")
@click.option("--samples", type=click.IntRange(min=5), default=BenchOptions.samples, show_default=True,
              help="Samples of each series; 30 or more on a device.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(0, 86_400, min_open=True), default=BenchOptions.timeout,
              show_default=True, help="Seconds for one request to the worker.")  # fmt: skip
@click.option("--report", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the reports [default: reports/bench-TARGET-SUITE].")  # fmt: skip
def command(
    fixtures: Path, target: str, kernels: tuple[str, ...], cases: tuple[str, ...], samples: int,
    timeout: float, report: Path | None,
) -> int:  # fmt: skip
    """Time the cases of the set FIXTURES on a target.

    On a device: replays of a CUDA graph, cold and warm, by event times. Buffers are checked before and after;
    a wrong result has no time. Exit code 1 where a case is wrong, 6 where a time is below its floor.
    """
    options = BenchOptions(kernels, cases, samples, timeout)
    check_folder(report or Path("reports"))
    with progress_bar(f"timing {target}") as bar:

        def progress(_: BenchCase, done: int, total: int) -> None:
            bar(done, total)

        results = bench(fixtures, target, options, progress=progress, notify=_notify, program=program())
    code = EXIT_CONFORMANCE if results.exit_reason else EXIT_PASS
    code = EXIT_HARNESS if results.totals[Outcome.HARNESS_ERROR] else code
    results = replace(results, exit_code=code)
    folder = report or Path("reports") / f"bench-{report_name(target, results.run.suite)}"
    _print(results)
    path = written(folder / "bench.json", results.to_json(), lambda: _reports(results, folder))
    click.echo(f"report: {path}")
    text = f"FAIL: {results.exit_reason}" if results.exit_reason else "TIMED"
    click.secho(f"{text} ({results.run.seconds:.1f} s)", fg="red" if code else "green", bold=True)
    return code


def _notify(line: str) -> None:
    click.echo(f"harness: {line}", err=True)


def _print(results: BenchResults) -> None:
    click.echo(f"{results.target.name}: {results.target.description} ({results.target.memory} memory)")
    click.echo(f"{'median':>12} {'p95':>12} {'min':>12} {'of floor':>9}  cache           calls  case")
    lines = 0
    for case in results.cases:
        for series in case.series if lines < MAX_SHOWN else ():
            share, how = case.share_of_floor(series), series.arrangement
            cache = f"{how.cache} {how.cold_by}".strip()
            click.echo(
                f"{_us(series.median)} {_us(series.p95)} {_us(series.min)} "
                f"{f'{share:.1%}' if share else '-':>9}  {cache:<14} {how.calls:>6}  {case.case_id}"
            )
            lines += 1
    total = sum(len(case.series) for case in results.cases)
    if total > lines:
        click.echo(f"{total - lines} more series in the report")
    _print_spans(results)
    bad = [c for c in results.cases if c.outcome is not Outcome.PASS]
    for case in bad[:10]:
        click.echo(f"{case.outcome} {case.case_id}: {case.message}")
    if len(bad) > 10:
        click.echo(f"{len(bad) - 10} more cases without times in the report")
    for note in results.notes:
        click.echo(f"note: {note}")


def _print_spans(results: BenchResults) -> None:
    rows = [(case, span) for case in results.cases for span in case.parts]
    if rows:
        click.echo(
            f"{'span':>12} {'launches':>9} {'of call':>9}  cache  kernel (spans overlap where kernels do)"
        )
    for number, (case, span) in enumerate(rows[:MAX_SHOWN]):
        if number == 0 or rows[number - 1][0] is not case:
            click.echo(f"  {case.case_id}")
        share = case.share_of_call(span)
        click.echo(
            f"{_us(span.median)} {span.launches:>9g} {f'{share:.1%}' if share else '-':>9}  "
            f"{span.cache:<5}  {span.kernel[:MAX_NAME]}"
        )
    if len(rows) > MAX_SHOWN:
        click.echo(f"{len(rows) - MAX_SHOWN} more spans in the report")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:>9.2f} us"


def _reports(results: BenchResults, folder: Path) -> tuple[Path, ...]:
    from harness.report.bench import write_bench

    return write_bench(results, folder)
