"""``harness gen-refs``: write a fixture set, or check that one can be written again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from harness.cases.base import SUITES
from harness.cli import EXIT_CONFORMANCE, EXIT_PASS
from harness.cli.progress import progress_bar
from harness.contract import KERNELS
from harness.generate import generate
from harness.generate.drift import first_difference
from harness.store import open_set
from harness.store.manifest import Manifest


@click.command("gen-refs")
@click.option("--suite", type=click.Choice(SUITES), default="standard", show_default=True, help="Cases.")
@click.option("--kernel", "-k", "kernels", type=click.Choice(list(KERNELS)), multiple=True,
              help="Only this kernel (repeatable); the set then holds no other.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root of all draws.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes [default: one per core].")
@click.option("--out", type=click.Path(path_type=Path),
              help="Folder of the set [default: fixtures/SUITE, or SUITE-KERNEL with -k].")  # fmt: skip
@click.option("--check", is_flag=True, help="Write nothing: generate again and compare with what lies there.")
def command(
    suite: str, kernels: tuple[str, ...], seed: int, jobs: int | None, out: Path | None, check: bool
) -> int:
    """Write a fixture set with the NumPy references.

    The set is the same on every machine and for any number of jobs. It replaces a set in the same folder
    once it is complete; anything else in that folder is a usage error and stays.

    With --check, exit code 1 and one line that names the first difference say that the stored set is not
    what the sources generate.
    """
    if out is None:  # some kernels alone never replace the set of all of them
        out = Path("fixtures") / (suite if check else "-".join([suite, *kernels]))
    started = time.monotonic()
    if check:
        return _check(suite, kernels, seed, jobs, out)
    with progress_bar(f"generating {suite}") as progress:
        manifest = generate(suite, out, kernels, seed, jobs, progress)
    _summary(manifest, out, time.monotonic() - started)
    return EXIT_PASS


def _check(suite: str, kernels: Sequence[str], seed: int, jobs: int | None, out: Path) -> int:
    with open_set(out) as stored, tempfile.TemporaryDirectory(prefix="harness-check-") as scratch:
        with progress_bar(f"generating {suite} again") as progress:
            generate(suite, Path(scratch) / suite, kernels, seed, jobs, progress)
        with open_set(Path(scratch) / suite) as fresh:
            found = first_difference(stored, fresh, kernels)
            cases = sum(entry.cases for entry in fresh.manifest.files.values())
    if found is not None:
        click.echo(f"{out}: {found}", err=True)
        return EXIT_CONFORMANCE
    click.echo(f"{out}: {cases} cases, as the sources generate them")
    return EXIT_PASS


def _summary(manifest: Manifest, out: Path, seconds: float) -> None:
    rows = [(kernel, entry.cases, entry.bytes) for kernel, entry in manifest.files.items()]
    rows.append(("total", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    for name, cases, size in rows:
        click.echo(f"{name:<12} {cases:>6} cases {size / 1e6:>8.2f} MB")
    click.echo(f"{out}: suite {manifest.info.suite}, set {manifest.set_sha256[:12]}, {seconds:.1f} s")
