"""``docs/fault-classes.md``: every class with its flags, mutants, tests and public threads."""

from __future__ import annotations

from itertools import groupby

from harness.mutants.catalogue import MUTANTS
from harness.mutants.faults import FAULTS
from harness.mutants.model import EVERYWHERE, Fault

_HEAD = """# Classes of faults

Faults that draft-tree kernels, their checkers and their stores have had in public, and what holds them here.
Written by `harness mutants --classes`; the source is `harness/mutants/faults/`, and a test keeps both equal.

* **Flags** claim a class: a kernel with this fault must fail a case that carries one of them.
* **Mutants** prove the claim: wrong on purpose, killed by such a case (`docs/mutants.md`). `device_...` need
  a GPU.
* **Tests** hold what no case can: the checker, the store, the references.
* **Outside** the contract: a class that its kernels cannot have. Listed, so that it is not forgotten.

A thread is cited where the class was seen or discussed, not as a judgement of the project.
"""


def document() -> str:
    """The whole page."""
    parts = [_HEAD]
    for part, entries in groupby(FAULTS.items(), key=lambda entry: entry[1].part):
        parts.append(f"\n## {part}\n")
        parts += [_section(name, fault) for name, fault in entries]
    return "".join(parts)


def _section(name: str, fault: Fault) -> str:
    lines = [f"\n### {name}\n", f"{fault.title}.\n"]
    if fault.outside:
        lines.append(f"* Outside: {fault.outside}.")
    if fault.flags:
        flags = ["every family" if flag == EVERYWHERE else f"`{flag}`" for flag in fault.flags]
        lines.append(f"* Flags: {', '.join(flags)}")
    mutants = [f"`{mutant.name}`" for mutant in MUTANTS if mutant.fault == name]
    if mutants:
        lines.append(f"* Mutants: {', '.join(mutants)}")
    if fault.tests:
        lines.append(f"* Tests: {', '.join(f'`{test}`' for test in fault.tests)}")
    if fault.links:
        lines.append(f"* Threads: {', '.join(_link(thread) for thread in fault.links)}")
    return "\n".join(lines) + "\n"


def _link(thread: str) -> str:
    project, number = thread.split("#")
    return f"[{thread}](https://github.com/{project}/issues/{number})"
