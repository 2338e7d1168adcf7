"""``harness verify``: replay a fixture set against a target and report."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.finish import check_folder, finish, program
from harness.cli.progress import progress_bar
from harness.contract import KERNELS
from harness.results import CaseResult
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
@click.option("--timeout", type=click.FloatRange(0, 86_400, min_open=True), default=60.0, show_default=True,
              help="Seconds for all runs of a case, and (with 20 more) for opening the target.")  # fmt: skip
@click.option("--order", help="Thread order of an emulated target: forward, reverse or random:SEED "
              "[default: forward, then reverse].")  # fmt: skip
@click.option("--jobs", "-j", type=click.IntRange(min=1),
              help="Worker processes [default: one per core; one for device memory].")  # fmt: skip
@click.option("--waivers", type=click.Path(), help="JSON or TOML file of known failures (docs/outcomes.md).")
@click.option("--shard", metavar="I/N", help="Only part I of N of the selection; `harness merge` joins them.")
@click.option("--budget", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="Begin no case after this time; the telling ones come first.")  # fmt: skip
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
    waivers: str | None,
    shard: str | None,
    budget: float | None,
    report: Path | None,
) -> int:
    """Replay the set FIXTURES against a target and report.

    Exit code 0 only if every selected kernel has a PASS, no case failed and none was left out. A case that
    the target says it does not serve is UNSUPPORTED: counted and named, and a failure where the target
    declares that it serves it. Cases that a --budget leaves are counted and named, and fail nothing.
    """
    options = VerifyOptions(
        kernels, flags, cases, require, repeat, timeout, order, jobs, waivers, shard, budget
    )
    check_folder(report or Path("reports"))
    with progress_bar(f"verifying {target}") as bar:

        def progress(_: CaseResult, done: int, total: int) -> None:
            bar(done, total)

        results = verify(fixtures, target, options, progress=progress, notify=_notify, program=program())
    name = report_name(target, results.run.suite)
    if shard is not None:
        name += f"-shard-{shard.replace('/', '-of-')}"
    return finish(results, report or Path("reports") / name)


def _notify(line: str) -> None:
    click.echo(f"harness: {line}", err=True)
