"""``harness show``: one case with its tree."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from harness.cli import EXIT_PASS
from harness.shapes import bind, kernel_named
from harness.show import find_case, render
from harness.store import open_set


@click.command("show")
@click.argument("fixtures", type=click.Path(path_type=Path))
@click.option("--case", "case_id", required=True, metavar="ID", help="The case, as `harness list` names it.")
@click.option("--request", type=int, help="Only the trees of this request of the batch.")
def command(fixtures: Path, case_id: str, request: int | None) -> int:
    """Print one case: flags and what they mean, sizes, arrays, and its tree with the accepted path."""
    with open_set(fixtures) as opened:
        case = find_case(opened, case_id)
    dims = bind(kernel_named(case.kernel), case.inputs, case.scalars)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=False)
    console.print(render(case, dims, request))
    return EXIT_PASS
