"""``harness repro``: one case as a program for debuggers, profilers and sanitizers."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from harness.cli import EXIT_PASS
from harness.cli.finish import program
from harness.errors import UsageProblem
from harness.repro import write_repro
from harness.runner.naming import relative, relative_target
from harness.show import find_case
from harness.store import open_set
from harness.targets import is_library_path
from harness.targets.locate import own_library


@click.command("repro")
@click.argument("fixtures", type=click.Path(path_type=Path))
@click.option("--case", "case_id", required=True, metavar="ID", help="The case, as `harness list` names it.")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="A new folder, or one that this command wrote.")  # fmt: skip
@click.option("--target", "-t", default="cpu", show_default=True, help="cpu, cuda or PATH.so.")
def command(fixtures: Path, case_id: str, out: Path, target: str) -> int:
    """Write one case of FIXTURES as a small C++/CUDA program that calls a library and compares.

    The program needs a compiler and the library, and nothing of this package: it is for gdb, cuda-gdb, ncu,
    compute-sanitizer, and for whoever wrote the kernel.
    """
    if target not in ("cpu", "cuda") and not (is_library_path(target) and Path(target).is_file()):
        raise UsageProblem(f"target {target}: no shared library; give cpu, cuda or a path to one")
    library = own_library(target) if target in ("cpu", "cuda") else Path(target)
    with open_set(fixtures) as opened:
        case = find_case(opened, case_id)
    words = [*shlex.split(program()), "verify", relative(fixtures), "--target", relative_target(target)]
    write_repro(case, out, library, shlex.join([*words, "--case", case.case_id]))
    run = "make gpu && ./repro-gpu" if target == "cuda" else "make && ./repro"
    click.echo(f"{out}: {case.case_id}")
    click.echo(f"cd {shlex.quote(str(out))} && {run}")
    return EXIT_PASS
