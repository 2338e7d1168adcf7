"""The library entry of ``harness bench``: a fixture set and a target in, `BenchResults` out."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import harness
from harness.bench.ceilings import ceilings_of, floor_of
from harness.bench.child import BenchChild, Ended
from harness.bench.clocks import Monitor
from harness.bench.first_step import first_step
from harness.bench.measure import Meter
from harness.bench.spans import with_spans
from harness.bench.work import NOTHING, work_of
from harness.bench_results import BenchCase, BenchResults, Ceilings, Series, Stage
from harness.case import Case
from harness.contract import CONTRACT_VERSION
from harness.errors import EnvironmentProblem, UsageProblem
from harness.results import Environment, Outcome, RunInfo
from harness.runner.environment import machine_facts
from harness.runner.gpu_lock import alone_on_gpu
from harness.runner.naming import relative, relative_target
from harness.runner.selection import select
from harness.store import FixtureSet, open_set
from harness.store.index import CaseSummary
from harness.targets import Options, check_name

FEWEST_SAMPLES = 30  # on a device
MAX_DEATHS = 20  # after so many dead workers the rest of a plan is not timed
EMULATED = "Emulated time is no performance figure: it says only where an emulated run spends itself."

Progress = Callable[[BenchCase, int, int], None]  # result, cases done, cases planned


@dataclass(frozen=True)
class BenchOptions:
    """What to time and how. Empty selections mean every valid case."""

    kernels: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    samples: int = 40
    timeout: float = 120.0  # seconds for one request to the worker


def plan_of(fixtures: FixtureSet, kernels: tuple[str, ...], cases: tuple[str, ...]) -> list[CaseSummary]:
    """The selected cases; invalid ones only where they are named by ``cases``."""
    chosen = select(fixtures, kernels, (), cases)
    plan = [s for s in chosen if cases or s.validity == "valid"]
    if not plan:
        raise UsageProblem(f"every selected case of {fixtures.folder} is invalid; name one with --case")
    return plan


def run_info(
    fixtures: FixtureSet, words: list[str], started: datetime, seconds: float, options: dict[str, object]
) -> RunInfo:
    """The facts of a timing run; ``words`` is its command."""
    return RunInfo(
        time=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        command=shlex.join(words),
        suite=fixtures.suite,
        fixtures=relative(fixtures.folder),
        harness_version=harness.__version__,
        contract_version=f"{CONTRACT_VERSION[0]}.{CONTRACT_VERSION[1]}",
        fixture_hash=fixtures.manifest.set_sha256,
        seconds=round(seconds, 3),
        options=options,
    )


def bench(
    folder: Path, target: str, options: BenchOptions, *, progress: Progress | None = None,
    notify: Callable[[str], None] = lambda _: None, program: str = "harness",
) -> BenchResults:  # fmt: skip
    """Time the selected cases of a set on a target, in a worker process.

    Raises as a verify does. Whatever the target does to a case becomes that case's outcome.
    """
    check_name(target, Options())
    with open_set(folder) as fixtures:
        return _Run(fixtures, target, options, progress, program).results(notify)


class _Run:
    """One bench, from plan to results."""

    def __init__(
        self,
        fixtures: FixtureSet,
        target: str,
        options: BenchOptions,
        progress: Progress | None,
        program: str,
    ) -> None:
        self._set, self._target, self._options = fixtures, target, options
        self._progress, self._program = progress, program
        self._plan = plan_of(fixtures, options.kernels, options.cases)
        self._child: BenchChild | None = self._start()
        self._info, facts = self._child.hello.info, self._child.hello.facts
        self._environment = Environment({**machine_facts(), **facts})
        if self._info.memory == "device" and options.samples < FEWEST_SAMPLES:
            self._child.close()
            raise UsageProblem(f"--samples is {options.samples}; a device wants {FEWEST_SAMPLES} or more")
        self._monitor = Monitor("")
        self._ceilings: Ceilings = ceilings_of("", None)
        self._deaths = 0

    def results(self, notify: Callable[[str], None]) -> BenchResults:
        """Time the plan, case by case; alone on the GPU where the target uses one."""
        if self._info.memory != "device":
            return self._results(notify)
        with alone_on_gpu(notify):
            return self._results(notify)

    def _results(self, notify: Callable[[str], None]) -> BenchResults:
        started, clock = datetime.now(UTC), time.perf_counter()
        cases: list[BenchCase] = []
        try:
            self._measure_device()
            for summary in self._plan:
                cases.append(self._timed(summary))
                if self._progress is not None:
                    self._progress(cases[-1], len(cases), len(self._plan))
        finally:
            if self._child is not None:
                self._child.close()
        notes = self._notes()
        if self._info.memory == "device":
            notify("timing is over; device spans of the kernels follow")
            timed, line = with_spans(cases, self._start, lambda case_id: first_step(self._set.case(case_id)))
            cases, notes = list(timed), (*notes, line)
        words = self._words(*(w for k in self._options.kernels for w in ("-k", k)))
        words += [w for c in self._options.cases for w in ("--case", c)]
        seconds = time.perf_counter() - clock
        results = BenchResults(
            run=run_info(self._set, words, started, seconds, asdict(self._options)),
            environment=self._environment,
            target=self._info,
            ceilings=self._ceilings,
            planned=len(self._plan),
            cases=tuple(cases),
            notes=notes,
        )
        return replace(results, exit_reason="; ".join(_reasons(results)))

    def _measure_device(self) -> None:
        assert self._child is not None
        try:
            bandwidth, bus_id = self._child.device()
        except Ended as ended:
            raise EnvironmentProblem(f"the device cannot be measured: {ended.message}") from ended
        self._monitor = Monitor(bus_id)
        self._ceilings = ceilings_of(self._environment.facts.get("device", ""), bandwidth)

    def _start(self) -> BenchChild:
        return BenchChild(self._target, Options(), self._options.timeout)

    def _timed(self, summary: CaseSummary) -> BenchCase:
        if self._deaths >= MAX_DEATHS:
            return self._result(summary, None, Ended(Outcome.NOT_RUN, f"{self._deaths} workers died"))
        case = first_step(self._set.case(summary.case_id))
        try:
            self._child = self._child or self._start()
            series, stages = self._series(case, self._child)
        except Ended as ended:
            if ended.replace and self._child is not None:
                self._child.kill()
                self._child.close()
                self._child = None
                self._deaths += 1
            return self._result(summary, case, ended)
        return self._result(summary, case, None, series, stages)

    def _series(self, case: Case, child: BenchChild) -> tuple[tuple[Series, ...], tuple[Stage, ...]]:
        meter = Meter(child, self._monitor, self._ceilings, self._options.samples)
        child.load(case)
        work = work_of(case)
        series: list[Series] = []
        stages: tuple[Stage, ...] = ()
        for cache in meter.caches:
            series.append(meter.series(case, work, cache))
            if case.kernel == "greedy_step" and cache == "cold":
                stages = meter.stages()
        return tuple(series), stages

    def _result(
        self, summary: CaseSummary, case: Case | None, ended: Ended | None,
        series: tuple[Series, ...] = (), stages: tuple[Stage, ...] = (),
    ) -> BenchCase:  # fmt: skip
        work = work_of(case) if case is not None else None
        return BenchCase(
            case_id=summary.case_id,
            kernel=summary.kernel,
            family=summary.family,
            flags=summary.flags,
            outcome=ended.outcome if ended else Outcome.PASS,
            message=" ".join(ended.message.split()) if ended else "",
            reproduce=shlex.join(self._words("--case", summary.case_id)),
            dims=dict(summary.dims),
            floor=floor_of(work, self._ceilings) if work else floor_of(NOTHING, self._ceilings),
            series=series,
            stages=stages,
            device_span=None,
        )

    def _words(self, *more: str) -> list[str]:
        words = [*shlex.split(self._program), "bench", relative(self._set.folder)]
        words += ["--target", relative_target(self._target)]
        if self._options.samples != BenchOptions.samples:
            words += ["--samples", str(self._options.samples)]
        return [*words, *more]

    def _notes(self) -> tuple[str, ...]:
        if self._info.memory != "device":
            return (EMULATED,) if self._info.timing == "emulated" else ()
        clocks = self._monitor.unavailable
        return (f"Clocks and throttle reasons: not read ({clocks}).",) if clocks else ()


def _reasons(results: BenchResults) -> list[str]:
    fine = (Outcome.PASS, Outcome.UNSUPPORTED)
    lines = [f"{n} {outcome}" for outcome, n in results.totals.items() if n and outcome not in fine]
    if not results.totals[Outcome.PASS]:
        lines.append("no case was timed")
    return lines
