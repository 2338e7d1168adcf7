"""``harness report``: render a run again, from its JSON file alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.bench_results import BENCH_SCHEMA, load_bench
from harness.cli import EXIT_PASS
from harness.compare_results import COMPARE_SCHEMA, load_compare
from harness.mutants.matrix import SCHEMA as MATRIX_SCHEMA
from harness.mutants.matrix import load_matrix
from harness.report import write_reports
from harness.report.bench import write_bench
from harness.report.compare import write_compare
from harness.report.mutants import write_matrix
from harness.results import load_results


@click.command("report")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Another folder than that of RESULTS."
)
def command(results: Path, out: Path | None) -> int:
    """Render RESULTS again: a results.json, bench.json, compare.json or mutants.json."""
    for path in _render(results, out or results.parent):
        click.echo(path)
    return EXIT_PASS


def _render(path: Path, folder: Path) -> tuple[Path, ...]:
    schema = _schema(path)
    if schema == BENCH_SCHEMA:
        return write_bench(load_bench(path), folder)
    if schema == COMPARE_SCHEMA:
        return write_compare(load_compare(path), folder)
    if schema == MATRIX_SCHEMA:
        return write_matrix(load_matrix(path), folder)
    return write_reports(load_results(path), folder)


def _schema(path: Path) -> str:
    """What the file says it is; nothing where it cannot be read, which the loader of results explains."""
    try:
        body: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    return str(body.get("schema", "")) if isinstance(body, dict) else ""
