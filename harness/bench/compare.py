"""The library entry of ``harness compare``: a set and two targets, or a target and a stored bench."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.bench.child import BenchChild
from harness.bench.duel import SideEnded, Sides, against, duel, no_times
from harness.bench.first_step import first_step
from harness.bench.measure import caches_of
from harness.bench.run import EMULATED, plan_of, run_info
from harness.bench_results import BenchResults, Series, load_bench
from harness.case import Case
from harness.compare_results import ComparedCase, CompareResults, Standing
from harness.errors import UsageProblem
from harness.results import Environment, Outcome
from harness.runner.environment import machine_facts
from harness.runner.gpu_lock import alone_on_gpu
from harness.runner.naming import relative, relative_target
from harness.store import FixtureSet, open_set
from harness.store.index import CaseSummary
from harness.targets import Options, check_name

Progress = Callable[[int, int], None]  # cases done, cases planned


@dataclass(frozen=True)
class CompareOptions:
    """What to compare and how. Empty selections mean every valid case."""

    kernels: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    samples: int = 40  # of each side, and again to confirm SLOWER
    min_effect: float = 0.02  # a part: smaller differences do not count
    timeout: float = 120.0  # seconds for one request to a worker
    baseline: Path | None = None  # a bench.json in place of the first target


def compare(
    folder: Path, targets: tuple[str, ...], options: CompareOptions, *, progress: Progress | None = None,
    notify: Callable[[str], None] = lambda _: None, program: str = "harness",
) -> CompareResults:  # fmt: skip
    """Compare the last of ``targets`` with the first, or with a stored bench. Raises as a bench does."""
    wanted = 1 if options.baseline else 2
    if len(targets) != wanted:
        remedy = (
            "one --target beside --baseline" if options.baseline else "--target twice, or --baseline FILE"
        )
        raise UsageProblem(f"{len(targets)} targets given; give {remedy}")
    for target in targets:
        check_name(target, Options())
    stored = load_bench(options.baseline) if options.baseline else None
    with open_set(folder) as fixtures:
        return _Run(fixtures, targets, stored, options, progress, program).results(notify)


class _Run:
    """One comparison, from plan to results."""

    def __init__(
        self, fixtures: FixtureSet, targets: tuple[str, ...], stored: BenchResults | None,
        options: CompareOptions, progress: Progress | None, program: str,
    ) -> None:  # fmt: skip
        self._set, self._options, self._progress, self._program = fixtures, options, progress, program
        self._names = dict(zip(("B",) if stored else ("A", "B"), targets, strict=True))
        self._stored = stored
        self._plan = plan_of(fixtures, options.kernels, options.cases)
        self._children: dict[str, BenchChild] = {}
        try:
            self._revive()
        except BaseException:
            self._close()
            raise
        self._hello = {side: child.hello for side, child in self._children.items()}
        infos = [hello.info for hello in self._hello.values()]
        self._caches = caches_of(*infos)
        self._on_gpu = any(info.memory == "device" for info in infos)

    def results(self, notify: Callable[[str], None]) -> CompareResults:
        """Compare case by case; alone on the GPU where a target uses one."""
        if not self._on_gpu:
            return self._results()
        with alone_on_gpu(notify):
            return self._results()

    def _results(self) -> CompareResults:
        started, clock = datetime.now(UTC), time.perf_counter()
        cases: list[ComparedCase] = []
        try:
            for done, summary in enumerate(self._plan, 1):
                cases += self._compared(summary)
                if self._progress is not None:
                    self._progress(done, len(self._plan))
        finally:
            self._close()
        second = self._hello["B"]
        options = {**asdict(self._options), "baseline": None}
        if self._options.baseline is not None:
            options["baseline"] = relative(self._options.baseline)
        return CompareResults(
            run=run_info(self._set, self._words(), started, time.perf_counter() - clock, options),
            environment=Environment({**machine_facts(), **second.facts}),
            first=self._stored.target if self._stored else self._hello["A"].info,
            second=second.info,
            indicative=self._stored is not None,
            min_effect=self._options.min_effect,
            planned=len(self._plan),
            cases=tuple(cases),
            notes=self._notes(),
        )

    def _compared(self, summary: CaseSummary) -> list[ComparedCase]:
        case = first_step(self._set.case(summary.case_id))
        found: list[ComparedCase] = []
        try:
            self._revive()
            sides = Sides(dict(self._children))
            sides.load(case)
            for cache in self._caches:
                found.append(self._one(case, cache, sides))
        except SideEnded as end:
            name, ended = self._names[end.side], end.ended
            if ended.replace:
                self._bury(end.side)
            reason = f"{relative_target(name)}: {' '.join(ended.message.split())}"
            cache = self._caches[min(len(found), len(self._caches) - 1)]
            found.append(no_times(case.case_id, case.kernel, cache, reason, ended.outcome, end.side))
        return found

    def _one(self, case: Case, cache: str, sides: Sides) -> ComparedCase:
        samples, effect = self._options.samples, self._options.min_effect
        if self._stored is None:
            return duel(case, cache, sides, samples, effect)
        series = _series(self._stored, case.case_id, cache)
        if series is None:
            reason = "the baseline has no times of this case"
            return no_times(case.case_id, case.kernel, cache, reason, Outcome.NOT_RUN, "A")
        compared = against(case, series, sides, samples, effect)
        here = self._hello["B"].facts.get("device", machine_facts()["cpu"])
        facts = self._stored.environment.facts
        there = facts.get("device", facts.get("cpu", ""))
        if here != there:
            reason = f"{compared.reason}; the baseline was taken on {there or 'another machine'}"
            return replace(compared, standing=Standing.UNDECIDED, reason=reason)
        return compared

    def _revive(self) -> None:
        for side, name in self._names.items():
            if side not in self._children:
                self._children[side] = BenchChild(name, Options(), self._options.timeout)

    def _bury(self, side: str) -> None:
        child = self._children.pop(side)
        child.kill()
        child.close()

    def _close(self) -> None:
        while self._children:
            self._children.popitem()[1].close()

    def _words(self) -> list[str]:
        words = [*shlex.split(self._program), "compare", relative(self._set.folder)]
        words += [w for name in self._names.values() for w in ("--target", relative_target(name))]
        if self._options.baseline is not None:
            words += ["--baseline", relative(self._options.baseline)]
        words += [w for kernel in self._options.kernels for w in ("-k", kernel)]
        return words + [w for case in self._options.cases for w in ("--case", case)]

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self._stored is not None:
            notes.append(
                "Indicative only: the baseline was timed at another time, not in turn with this target."
            )
        if any(hello.info.timing == "emulated" for hello in self._hello.values()):
            notes.append(EMULATED)
        return tuple(notes)


def _series(stored: BenchResults, case_id: str, cache: str) -> Series | None:
    for case in stored.cases:
        if case.case_id == case_id:
            return next((s for s in case.series if s.arrangement.cache == cache), None)
    return None
