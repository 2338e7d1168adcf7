"""The library entry of ``harness verify``: a fixture set and a target in, a `Results` out."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import harness
from harness.case import Case
from harness.contract import CONTRACT_VERSION
from harness.flags import FLAGS
from harness.judge import Verdict, judge
from harness.judge.picture import tree_picture
from harness.observation import Observation
from harness.results import CaseResult, Environment, Outcome, Results, RunInfo, TreePicture
from harness.runner.child import Death, Hello
from harness.runner.commands import Commands
from harness.runner.conclusion import failures
from harness.runner.environment import built_not_run, cores, machine_facts
from harness.runner.gpu_lock import alone_on_gpu
from harness.runner.naming import relative
from harness.runner.options import VerifyOptions
from harness.runner.planning import parse_shard, telling_first
from harness.runner.selection import select
from harness.runner.supervisor import Seen, Settings, Supervisor, Victim
from harness.runner.waivers import Waivers, load_waivers
from harness.store import FixtureSet, open_set
from harness.store.index import CaseSummary
from harness.targets import Options, check_name

Progress = Callable[[CaseResult, int, int], None]  # result, cases done, cases planned
Notify = Callable[[str], None]  # one line, while nothing seems to happen

__all__ = ["Notify", "Progress", "VerifyOptions", "verify"]


def verify(
    fixtures: FixtureSet | Path | str,
    target: str,
    options: VerifyOptions | None = None,
    *,
    progress: Progress | None = None,
    notify: Notify | None = None,
    program: str = "harness",
) -> Results:
    """Replay the selected cases of a set against a target, in worker processes.

    UsageProblem: a name, selection or waiver that makes no sense. FixtureError: the set is damaged.
    EnvironmentProblem: the target cannot be opened here. Whatever the target does to a case becomes that
    case's outcome. ``program`` is how the reproducing commands start.
    """
    options = options or VerifyOptions()
    options.check()
    settings = Settings(target, Options(order=options.order), options.repeat, options.timeout, options.budget)
    check_name(target, settings.options)
    opened: AbstractContextManager[FixtureSet] = (
        nullcontext(fixtures) if isinstance(fixtures, FixtureSet) else open_set(Path(fixtures))
    )
    with opened as fixture_set:
        return _Run(fixture_set, settings, options, progress, notify, program).results()


class _Run:
    """One verify, from plan to results."""

    def __init__(
        self,
        fixtures: FixtureSet,
        settings: Settings,
        options: VerifyOptions,
        progress: Progress | None,
        notify: Notify | None,
        program: str,
    ) -> None:
        self._set, self._settings, self._options = fixtures, settings, options
        self._progress, self._notify = progress, notify or (lambda _: None)
        self._commands = Commands(program, fixtures.folder, settings)
        self._plan = select(fixtures, options.kernels, options.flags, options.cases)
        self._waivers = Waivers()
        if options.waivers is not None:
            today = datetime.now(UTC).date()
            self._waivers = load_waivers(Path(options.waivers), fixtures.summaries(), today)
        if options.shard is not None:
            self._plan = parse_shard(options.shard).of(self._plan)
        self._done: dict[str, CaseResult] = {}
        self._notes: Counter[str] = Counter()
        self._deaths: list[str] = []
        self._judged_at: list[float] = []  # when each result was there, by `time.perf_counter`
        self._lock = threading.Lock()

    def results(self) -> Results:
        """Run the plan."""
        started, clock = datetime.now(UTC), time.perf_counter()
        supervisor = Supervisor(self._settings, max(1, min(self._options.jobs or 1, len(self._plan))))
        hello = supervisor.hello
        device = hello.info.memory == "device"
        jobs = self._options.jobs or (1 if device else cores())
        plan = {summary.case_id: summary for summary in self._plan}
        launched = [s for s in self._plan if not self._quarantined(s)]
        if self._options.budget is not None:
            launched = telling_first(launched)
        with alone_on_gpu(self._notify) if device else nullcontext():
            supervisor.run(
                [summary.case_id for summary in launched],
                jobs,
                self._set.case,
                lambda case, seen: self._finish(plan[case.case_id], case, seen),
            )
        for summary in self._plan:
            if summary.case_id not in self._done:
                self._keep(self._result(summary, Verdict(Outcome.NOT_RUN, supervisor.stopped)))
        cases = tuple(self._done[case_id] for case_id in plan)
        results = Results(
            run=self._run_info(started, time.perf_counter() - clock, jobs),
            environment=Environment({**machine_facts(), **hello.facts}),
            target=hello.info,
            planned=len(plan),
            cases=cases,
            flags=_meanings({flag for case in cases for flag in case.flags}),
            notes=self._all_notes(hello),
            cases_per_second=self._rate(),
        )
        reasons = failures(results, self._options.require)
        return replace(results, exit_reason="; ".join(reasons))

    def _quarantined(self, summary: CaseSummary) -> bool:
        verdict = self._waivers.quarantined(summary)
        if verdict is not None:
            self._keep(self._result(summary, verdict))
        return verdict is not None

    def _finish(self, summary: CaseSummary, case: Case, seen: Seen) -> None:
        if isinstance(seen, Victim):
            verdict, seconds, picture = self._judged(case, seen.seen)
            death = seen.death
            was = f"{death.outcome} after {seen.suspect} in one worker, which is suspect ({death.message})"
            with self._lock:
                self._deaths.append(f"{summary.case_id}: {was}; alone it is {verdict.outcome}")
            verdict = replace(verdict, message="; ".join(filter(None, [verdict.message, was])))
            suspect: str | None = seen.suspect
        else:
            (verdict, seconds, picture), suspect = self._judged(case, seen), None
        verdict = self._waivers.applied(summary, verdict)
        self._keep(self._result(summary, verdict, seconds, picture, suspect))
        self._judged_at.append(time.perf_counter())

    def _rate(self) -> float | None:
        """Cases a second: start and end of the workers are not in it."""
        if len(self._judged_at) < 2:
            return None
        return (len(self._judged_at) - 1) / max(max(self._judged_at) - min(self._judged_at), 1e-9)

    def _judged(
        self, case: Case, seen: Observation | Death
    ) -> tuple[Verdict, float | None, TreePicture | None]:
        if isinstance(seen, Death):
            return Verdict(seen.outcome, seen.message), None, None
        try:
            verdict = judge(case, seen)
            picture = None
            if verdict.mismatch is not None and verdict.outputs is not None:
                picture = tree_picture(case, verdict.mismatch, verdict.outputs)
        except Exception as error:
            verdict, picture = Verdict(Outcome.HARNESS_ERROR, f"{type(error).__name__}: {error}"), None
        with self._lock:
            self._notes.update(seen.notes)
        return verdict, seen.seconds, picture

    def _result(
        self,
        summary: CaseSummary,
        verdict: Verdict,
        seconds: float | None = None,
        tree: TreePicture | None = None,
        suspect: str | None = None,
    ) -> CaseResult:
        return CaseResult(
            case_id=summary.case_id,
            kernel=summary.kernel,
            family=summary.family,
            flags=summary.flags,
            outcome=verdict.outcome,
            policy=summary.policy,
            message=" ".join(verdict.message.split()),
            share=verdict.share,
            seconds=seconds,
            reproduce=self._commands.reproduce(summary.case_id, suspect),
            mismatch=verdict.mismatch,
            tree=tree,
            dims=dict(summary.dims),
            suspect=suspect,
        )

    def _keep(self, result: CaseResult) -> None:
        with self._lock:
            self._done[result.case_id] = result
            if self._progress is not None:
                self._progress(result, len(self._done), len(self._plan))

    def _run_info(self, started: datetime, seconds: float, jobs: int) -> RunInfo:
        options = asdict(self._options)
        if self._options.waivers is not None:
            options["waivers"] = relative(Path(self._options.waivers))
        return RunInfo(
            time=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            command=self._commands.run(self._options),
            suite=self._set.suite,
            fixtures=relative(self._set.folder),
            harness_version=harness.__version__,
            contract_version=f"{CONTRACT_VERSION[0]}.{CONTRACT_VERSION[1]}",
            fixture_hash=self._set.manifest.set_sha256,
            seconds=round(seconds, 3),
            options={**options, "jobs": jobs},
        )

    def _all_notes(self, hello: Hello) -> tuple[str, ...]:
        notes = [*sorted(self._deaths), *self._waivers.expired]
        notes += [f"{note} ({count} cases)" for note, count in sorted(self._notes.items())]
        declared = set(hello.info.capabilities)
        if declared & {"ATTN_MLA", "ATTN_GQA"} and "ATTN_LSE" not in declared:
            notes.append("lse was not compared: the target does not declare ATTN_LSE")
        elsewhere = built_not_run(hello.info.description, hello.facts.get("compute capability", ""))
        if elsewhere and hello.info.memory == "device":
            notes.append(f"built, not run: {', '.join(elsewhere)}")
        return tuple(notes)


def _meanings(flags: set[str]) -> dict[str, dict[str, str]]:
    known = [(name, FLAGS[name]) for name in sorted(flags) if name in FLAGS]
    return {
        name: {"probes": f.probes, "effect": f.effect, **({"links": " ".join(f.links)} if f.links else {})}
        for name, f in known
    }
