"""``harness report``: render a run again, from its results.json alone."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli import EXIT_PASS
from harness.report import write_reports
from harness.results import load_results


@click.command("report")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Another folder than that of RESULTS."
)
def command(results: Path, out: Path | None) -> int:
    """Render RESULTS (a results.json) as junit.xml, summary.md and index.html."""
    for path in write_reports(load_results(results), out or results.parent):
        click.echo(path)
    return EXIT_PASS
