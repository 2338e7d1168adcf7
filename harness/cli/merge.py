"""``harness merge``: the results of all shards of a run as one."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from harness.cli.finish import finish, program
from harness.errors import UsageProblem
from harness.results import load_results
from harness.runner.merging import merge
from harness.runner.naming import relative


@click.command("merge")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder of the merged reports.")  # fmt: skip
def command(results: tuple[Path, ...], out: Path) -> int:
    """Join RESULTS, the results.json of every shard of one run (or their folders), into one.

    All must be of one target, set and selection, and every shard must be there exactly once. The exit code is
    that of the whole run.
    """
    files = [path / "results.json" if path.is_dir() else path for path in results]
    if len(set(files)) != len(files):
        raise UsageProblem("a results file is given twice; give the results of every shard once")
    words = [*shlex.split(program()), "merge", *map(relative, results), "--out", relative(out)]
    return finish(merge({str(path): load_results(path) for path in files}, shlex.join(words)), out)
