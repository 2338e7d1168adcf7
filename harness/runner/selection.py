"""Which cases of a set are planned. A pattern that matches nothing is a usage error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import UsageProblem
from harness.shapes import kernel_named
from harness.store import FixtureSet
from harness.store.index import CaseSummary


def select(
    fixtures: FixtureSet, kernels: Sequence[str] = (), flags: Sequence[str] = (), cases: Sequence[str] = ()
) -> list[CaseSummary]:
    """Cases of any of ``kernels``, with any of ``flags``, with an id like any of ``cases``; empty means all.

    UsageProblem where one of them matches no case of the set, or all together leave none.
    """
    for kernel in kernels:
        if kernel_named(kernel).name not in fixtures.kernels:
            raise _nothing(fixtures.folder, "kernel", kernel)
    chosen = [s for kernel in fixtures.kernels if kernel in (kernels or fixtures.kernels)
              for s in fixtures.summaries(kernel)]  # fmt: skip
    chosen = _matching(fixtures.folder, chosen, "flag", flags, lambda s, f: f in s.flags)
    chosen = _matching(fixtures.folder, chosen, "case", cases, lambda s, c: fnmatchcase(s.case_id, c))
    if not chosen:
        raise UsageProblem(f"{fixtures.folder} has no case; make it again with `harness gen-refs`")
    return chosen


def _matching(
    folder: Path,
    summaries: list[CaseSummary],
    what: str,
    wanted: Sequence[str],
    matches: Callable[[CaseSummary, str], bool],
) -> list[CaseSummary]:
    for pattern in wanted:
        if not any(matches(s, pattern) for s in summaries):
            raise _nothing(folder, what, pattern)
    return [s for s in summaries if not wanted or any(matches(s, pattern) for pattern in wanted)]


def _nothing(folder: Path, what: str, pattern: str) -> UsageProblem:
    return UsageProblem(
        f"--{what} {pattern} selects no case of {folder}; `harness list {folder}` shows what is there"
    )
