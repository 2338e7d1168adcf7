"""``harness mutants``: run wrong kernels on purpose, and say which cases catch them."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from harness.cli import EXIT_CONFORMANCE, EXIT_HARNESS, EXIT_PASS
from harness.mutants.build import TARGETS
from harness.mutants.campaign import Campaign, Progress, chosen, run_campaign
from harness.mutants.document import document
from harness.mutants.matrix import Matrix
from harness.mutants.model import Fate
from harness.report.mutants import MARKS, write_matrix


@click.command("mutants")
@click.option("--target", "-t", type=click.Choice(TARGETS), default="cpu", show_default=True,
              help="Where the mutants run.")  # fmt: skip
@click.option("--suite-dir", type=click.Path(path_type=Path, file_okay=False),
              help="A fixture set [default: a selection of standard, made for this run].")  # fmt: skip
@click.option("--only", multiple=True, help="Only mutants with this name; * and ? match (repeatable).")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=10.0, show_default=True,
              help="Seconds for one case.")  # fmt: skip
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes [default: one per core].")
@click.option("--report", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the pages [default: reports/mutants-TARGET].")  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Name the mutants and end.")
@click.option("--classes", is_flag=True, help="Print docs/fault-classes.md and end.")
def command(
    target: str,
    suite_dir: Path | None,
    only: tuple[str, ...],
    timeout: float,
    jobs: int | None,
    report: Path | None,
    listed: bool,
    classes: bool,
) -> int:
    """Run every wrong kernel over cases that must catch it, and write the kill matrix.

    Exit code 1 if a mutant survives, or dies only by cases that do not claim its class of fault.
    """
    if classes:
        click.echo(document(), nl=False)
        return EXIT_PASS
    if listed:
        for mutant in chosen(only):
            click.echo(f"{mutant.name:<40} {mutant.fault:<26} {mutant.what}")
        return EXIT_PASS
    campaign = Campaign(target, suite_dir, only, jobs, timeout)
    matrix = run_campaign(campaign, _command(campaign), _announce())
    pages = write_matrix(matrix.to_json(), report or Path("reports") / f"mutants-{target}")
    _print(matrix)
    click.echo(f"report: {pages[-1]}")
    for line in matrix.harness_faults:
        click.echo(f"harness fault: {line}", err=True)
    verdict = f"FAIL: {'; '.join(matrix.reasons)}" if matrix.reasons else "PASS"
    click.secho(f"{verdict} ({matrix.seconds:.1f} s)", fg="red" if matrix.reasons else "green", bold=True)
    if matrix.harness_faults:
        return EXIT_HARNESS
    return EXIT_CONFORMANCE if matrix.reasons else EXIT_PASS


def _print(matrix: Matrix) -> None:
    """One line for each mutant, survivors first: verdict, name, and the families that killed it."""
    click.echo(
        "marks: " + ", ".join(f"{letter} {name}" for name, letter in MARKS.items()) + "; ! claims the class"
    )
    for fate in matrix.fates:
        color = "green" if fate.verdict == "killed" else "red"
        click.echo(f"{click.style(fate.verdict, fg=color):<9} {fate.mutant.name:<40} {_families(fate)}")
    totals = matrix.totals
    click.echo(
        f"{len(matrix.fates)} mutants, {matrix.cases} cases: {totals['killed']} killed, "
        f"{totals['unclaimed']} unclaimed, {totals['survived']} survived, {totals['not_run']} not run here"
    )


def _families(fate: Fate, most: int = 6) -> str:
    kills = [(name, kill) for name, kill in fate.families.items() if kill is not None]
    kills.sort(key=lambda pair: not pair[1].claimed)
    shown = [
        f"{name.split('/', 1)[1]}:{MARKS.get(kill.outcome, '?')}{'!' if kill.claimed else ''}"
        for name, kill in kills
    ]
    more = f" +{len(shown) - most}" if len(shown) > most else ""
    missed = sum(1 for kill in fate.families.values() if kill is None)
    return " ".join(shown[:most]) + more + (f"  ({missed} families passed)" if missed else "")


def _command(campaign: Campaign) -> str:
    words = ["harness", "mutants", "--target", campaign.target]
    words += ["--suite-dir", str(campaign.suite_dir)] if campaign.suite_dir else []
    words += [word for pattern in campaign.only for word in ("--only", pattern)]
    return shlex.join(words)


def _announce() -> Progress:
    """One line on stderr for each stage."""
    stages: list[str] = []

    def say(stage: str, _done: int, _total: int) -> None:
        if stage not in stages:
            stages.append(stage)
            click.echo(f"{stage} ...", err=True)

    return say
