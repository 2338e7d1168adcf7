"""``harness lint``: check that a fixture set is whole and that its cases can fail."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli import EXIT_CONFORMANCE, EXIT_PASS
from harness.cli.progress import progress_bar
from harness.lint import lint
from harness.store import open_set


@click.command("lint")
@click.argument("fixtures", type=click.Path(path_type=Path))
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes [default: one per core].")
def command(fixtures: Path, jobs: int | None) -> int:
    """Check a fixture set: hashes, contract, preconditions, trees, and that every case can fail.

    Prints one line per finding; exit code 1 if there is any.
    """
    with open_set(fixtures) as opened:
        cases = len(opened.summaries())
        with progress_bar(f"checking {fixtures}") as progress:
            findings = lint(opened, jobs, progress)
    for finding in findings:
        click.echo(str(finding))
    click.echo(f"{fixtures}: {cases} cases, {len(findings)} findings", err=bool(findings))
    return EXIT_CONFORMANCE if findings else EXIT_PASS
