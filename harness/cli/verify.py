"""``harness verify``: replay a fixture set against a target and report."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from harness.cli import EXIT_CONFORMANCE, EXIT_HARNESS, EXIT_PASS
from harness.cli.progress import progress_bar
from harness.cli.verdict import print_verdict
from harness.contract import KERNELS
from harness.results import CaseResult, Outcome, Results
from harness.runner.naming import report_name
from harness.runner.verification import VerifyOptions, verify


@click.command("verify")
@click.argument("fixtures", type=click.Path(path_type=Path))
@click.option("--target", "-t", required=True, help="reference, cpu, cuda, PATH.so, or module:Class.")
@click.option("--kernel", "-k", "kernels", type=click.Choice(list(KERNELS)), multiple=True,
              help="Only this kernel (repeatable).")  # fmt: skip
@click.option("--flag", "flags", multiple=True, help="Only cases with this flag (repeatable: any of them).")
@click.option("--case", "cases", multiple=True, help="Only cases with this id; * and ? match (repeatable).")
@click.option("--require", type=click.Choice(list(KERNELS)), multiple=True,
              help="Fail unless a case of this kernel passes, selected or not (repeatable).")  # fmt: skip
@click.option("--repeat", type=click.IntRange(min=2), default=2, show_default=True, help="Runs of each case.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True,
              help="Seconds for all runs of a case.")  # fmt: skip
@click.option("--order", help="Thread order of an emulated target: forward, reverse or random:SEED "
              "[default: forward, then reverse].")  # fmt: skip
@click.option("--jobs", "-j", type=click.IntRange(min=1),
              help="Worker processes [default: one per core; one for device memory].")  # fmt: skip
@click.option("--report", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the reports [default: reports/TARGET-SUITE].")  # fmt: skip
def command(
    fixtures: Path,
    target: str,
    kernels: tuple[str, ...],
    flags: tuple[str, ...],
    cases: tuple[str, ...],
    require: tuple[str, ...],
    repeat: int,
    timeout: float,
    order: str | None,
    jobs: int | None,
    report: Path | None,
) -> int:
    """Replay the set FIXTURES against a target and report.

    Exit code 0 only if every selected kernel has a PASS, no case failed and none was left out. A case that
    the target says it does not serve is UNSUPPORTED: counted and named, and a failure where the target
    declares that it serves it.
    """
    options = VerifyOptions(kernels, flags, cases, require, repeat, timeout, order, jobs)
    with progress_bar(f"verifying {target}") as bar:

        def progress(_: CaseResult, done: int, total: int) -> None:
            if bar is not None:
                bar(done, total)

        results = verify(fixtures, target, options, progress=progress, program=_program())
    code = _exit_code(results)
    results = replace(results, exit_code=code)
    folder = report or Path("reports") / report_name(target, results.run.suite)
    print_verdict(results, _write(results, folder))
    return code


def _exit_code(results: Results) -> int:
    """A verdict of the harness about itself comes before one about the target."""
    if results.totals[Outcome.HARNESS_ERROR]:
        return EXIT_HARNESS
    return EXIT_CONFORMANCE if results.exit_reason else EXIT_PASS


def _write(results: Results, folder: Path) -> Path:
    """All reports, or `results.json` alone where the template library is not installed."""
    try:
        from harness.report import write_reports
    except ImportError:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "results.json"
        beside = folder / f".results.json.{os.getpid()}"
        beside.write_text(results.to_json(), encoding="utf-8")
        beside.replace(path)
        return path
    return write_reports(results, folder)[-1]


def _program() -> str:
    """How this process was started, for commands that reproduce a case."""
    started = Path(sys.argv[0])
    from_source = started.name == "__main__.py" and started.parent.name == "harness"
    return "python3 -m harness" if from_source else "harness"
