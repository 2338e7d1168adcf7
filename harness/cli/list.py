"""``harness list``: what a set holds, or what families and flags there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.catalogue import case_rows, family_rows, flag_rows
from harness.cli import EXIT_PASS
from harness.contract import KERNELS
from harness.errors import UsageProblem
from harness.store import open_set


@click.command("list")
@click.argument("fixtures", type=click.Path(path_type=Path), required=False)
@click.option("--kernel", "-k", type=click.Choice(list(KERNELS)), help="Only this kernel.")
@click.option("--flag", help="Only the cases that carry this flag.")
@click.option(
    "--flags", "what", flag_value="flags", help="The flags and what they probe; with a set, how many cases."
)
@click.option("--families", "what", flag_value="families", help="The families and the cases of each suite.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list instead of text.")
def command(
    fixtures: Path | None, kernel: str | None, flag: str | None, what: str | None, as_json: bool
) -> int:
    """List the cases of a fixture set, or the families or flags there are."""
    rows = _rows(fixtures, kernel, flag, what)
    if as_json:
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
    for row in [] if as_json else rows:
        click.echo(_text(row))
    return EXIT_PASS


def _rows(
    fixtures: Path | None, kernel: str | None, flag: str | None, what: str | None
) -> list[dict[str, Any]]:
    if what == "families":
        return family_rows(kernel)
    if fixtures is None:
        if what == "flags":
            return flag_rows()
        raise UsageProblem("give a fixture set, --families or --flags")
    with open_set(fixtures) as opened:
        return flag_rows(opened) if what == "flags" else case_rows(opened, kernel, flag)


def _text(row: dict[str, Any]) -> str:
    if "case_id" in row:
        dims = " ".join(f"{name}{size}" for name, size in row["dims"].items())
        return f"{row['case_id']}  [{', '.join(row['flags'])}]  {dims}"
    if "family" in row:
        counts = " ".join(f"{suite} {count}" for suite, count in row["cases"].items())
        return f"{row['kernel']}/{row['family']}  ({counts})\n    {row['doc']}"
    cases = f"  ({row['cases']} cases)" if "cases" in row else ""
    return f"{row['flag']}{cases}\n    probes: {row['probes']}\n    effect: {row['effect']}"
