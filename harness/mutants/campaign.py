"""All mutants over one set of cases, in several processes: the kill matrix."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from harness.case import Case
from harness.errors import HarnessError, UsageProblem
from harness.generate import generate
from harness.generate.processes import map_in_processes
from harness.mutants.bench import VARIABLE, Bench
from harness.mutants.build import build_library
from harness.mutants.catalogue import MUTANTS
from harness.mutants.execute import run_mutant
from harness.mutants.matrix import Matrix, survivors_first
from harness.mutants.model import Fate, Mutant
from harness.runner.gpu_lock import alone_on_gpu
from harness.runner.verification import VerifyOptions, verify
from harness.store import FixtureSet, open_set
from harness.store.index import CaseSummary

Progress = Callable[[str, int, int], None]  # what is done, steps done, steps planned
SUITE = "harness.mutants.suite"
_GPU_JOBS = 8  # processes that share one GPU: as many far pools as its memory holds


@dataclass(frozen=True)
class Campaign:
    """What to run."""

    target: str = "cpu"
    suite_dir: Path | None = None  # a set; default: the cases of `harness.mutants.suite`, made for this run
    only: tuple[str, ...] = ()  # patterns of names; empty means all
    jobs: int | None = None
    timeout: float = 10.0  # seconds for one case
    seed: int = 0

    @property
    def processes(self) -> int | None:
        """How many are asked for; None is one per core."""
        return self.jobs or (_GPU_JOBS if self.target == "cuda" else None)


def chosen(only: tuple[str, ...]) -> tuple[Mutant, ...]:
    """Mutants whose name matches one of the patterns. UsageProblem for a pattern that matches none."""
    for pattern in only:
        if not any(fnmatchcase(mutant.name, pattern) for mutant in MUTANTS):
            raise UsageProblem(f"--only {pattern} names no mutant; `harness mutants --list` shows them")
    return tuple(m for m in MUTANTS if not only or any(fnmatchcase(m.name, p) for p in only))


def run_campaign(campaign: Campaign, command: str, progress: Progress | None = None) -> Matrix:
    """Build the library, make the cases, prove the right kernels right on them, run every mutant.

    UsageProblem, FixtureError, EnvironmentProblem as elsewhere; HarnessError where the right kernels fail.
    """
    report = progress or (lambda what, done, total: None)
    started, clock = datetime.now(UTC), time.monotonic()
    mutants = chosen(campaign.only)
    report("building", 0, 1)
    with tempfile.TemporaryDirectory(prefix="harness-mutants-") as scratch:
        library = build_library(campaign.target, Path(scratch))
        folder = campaign.suite_dir or Path(scratch) / "set"
        if campaign.suite_dir is None:
            generate("standard", folder, None, campaign.seed, campaign.jobs,
                     lambda done, total: report("generating", done, total), SUITE)  # fmt: skip
        with open_set(folder) as fixtures:
            environment = _prove_right(fixtures, library, campaign.processes, report)
            cases = sum(entry.cases for entry in fixtures.manifest.files.values())
        runnable = [mutant for mutant in mutants if mutant.runs_on(campaign.target)]
        fates: list[Fate] = []
        arguments = (folder, library, Path(scratch), campaign.timeout)
        with alone_on_gpu(lambda line: report(line, 0, 1)) if campaign.target == "cuda" else nullcontext():
            for fate in map_in_processes(_run, runnable, campaign.processes, _start, arguments):
                fates.append(fate)
                report("running", len(fates), len(runnable))
    return Matrix(
        target=campaign.target,
        suite=str(campaign.suite_dir or "selection of standard"),
        cases=cases,
        time=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(time.monotonic() - clock, 3),
        command=command,
        fates=survivors_first(fates),
        not_run=tuple(mutant for mutant in mutants if not mutant.runs_on(campaign.target)),
        environment=environment,
    )


def _prove_right(fixtures: FixtureSet, library: Path, jobs: int | None, report: Progress) -> dict[str, str]:
    """A kill is worth something only by a case that the right kernels pass. Returns what ran on what."""
    os.environ.pop(VARIABLE, None)
    results = verify(
        fixtures,
        str(library),
        VerifyOptions(jobs=jobs),
        progress=lambda _, done, total: report("proving the right kernels right", done, total),
    )
    if results.exit_reason:
        raise HarnessError(f"the kernels without a mutant fail: {results.exit_reason}")
    hashes = {"set sha256": results.run.fixture_hash, "library sha256": results.target.library_sha256 or ""}
    return {**results.environment.facts, **hashes, "processes": str(results.run.options["jobs"])}


class _Cached:
    """A set whose cases are read once in this process."""

    def __init__(self, fixtures: FixtureSet) -> None:
        self._summaries = fixtures.summaries()
        self._case = lru_cache(maxsize=1000)(fixtures.case)

    def summaries(self) -> list[CaseSummary]:
        return self._summaries

    def case(self, case_id: str) -> Case:
        return self._case(case_id)


@dataclass(frozen=True)
class _Process:
    """The state of a working process."""

    cases: _Cached
    bench: Bench


_process: _Process


def _start(folder: Path, library: Path, scratch: Path, timeout: float) -> None:
    global _process
    switch = scratch / f"{os.getpid()}.mutant"
    _process = _Process(_Cached(open_set(folder)), Bench(library, switch, timeout))


def _run(mutant: Mutant) -> Fate:
    return run_mutant(mutant, _process.cases, _process.bench)
