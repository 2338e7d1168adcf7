"""The library entry of ``harness verify``: a fixture set and a target in, a `Results` out."""

from __future__ import annotations

import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import harness
from harness.case import Case
from harness.contract import CONTRACT_VERSION
from harness.errors import UsageProblem
from harness.flags import FLAGS
from harness.judge import Verdict, judge
from harness.judge.picture import tree_picture
from harness.replay import MIN_REPEAT
from harness.results import CaseResult, Environment, Outcome, Results, RunInfo, TreePicture
from harness.runner.child import Death, Hello
from harness.runner.conclusion import failures
from harness.runner.environment import cores, machine_facts
from harness.runner.naming import relative, relative_target
from harness.runner.selection import select
from harness.runner.supervisor import Seen, Settings, Supervisor
from harness.shapes import kernel_named
from harness.store import FixtureSet, open_set
from harness.store.index import CaseSummary
from harness.targets import Options, check_name

Progress = Callable[[CaseResult, int, int], None]  # result, cases done, cases planned


@dataclass(frozen=True)
class VerifyOptions:
    """What to run and how. Empty selections mean everything."""

    kernels: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    require: tuple[str, ...] = ()  # kernels that must have a PASS besides those selected
    repeat: int = MIN_REPEAT
    timeout: float = 60.0  # seconds for all runs of one case
    order: str | None = None  # thread order of an emulated target
    jobs: int | None = None  # worker processes; default: one per core, one for device memory


def verify(
    fixtures: FixtureSet | Path | str,
    target: str,
    options: VerifyOptions | None = None,
    *,
    progress: Progress | None = None,
    program: str = "harness",
) -> Results:
    """Replay the selected cases of a set against a target, in worker processes.

    UsageProblem: a name or selection that makes no sense. FixtureError: the set is damaged.
    EnvironmentProblem: the target cannot be opened here. Whatever the target does to a case becomes that
    case's outcome. ``program`` is how the reproducing commands start.
    """
    options = options or VerifyOptions()
    if options.repeat < MIN_REPEAT:
        raise UsageProblem(f"--repeat is {options.repeat}; two poisons need at least {MIN_REPEAT} runs")
    if not options.timeout > 0:
        raise UsageProblem(f"--timeout is {options.timeout:g}; it must be positive")
    for kernel in options.require:
        kernel_named(kernel)
    settings = Settings(target, Options(order=options.order), options.repeat, options.timeout)
    check_name(target, settings.options)
    if isinstance(fixtures, FixtureSet):
        return _Run(fixtures, settings, options, progress, program).results()
    with open_set(Path(fixtures)) as opened:
        return _Run(opened, settings, options, progress, program).results()


class _Run:
    """One verify, from plan to results."""

    def __init__(
        self,
        fixtures: FixtureSet,
        settings: Settings,
        options: VerifyOptions,
        progress: Progress | None,
        program: str,
    ) -> None:
        self._set, self._settings, self._options = fixtures, settings, options
        self._progress, self._program = progress, program
        self._plan = select(fixtures, options.kernels, options.flags, options.cases)
        self._done: dict[str, CaseResult] = {}
        self._notes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def results(self) -> Results:
        """Run the plan."""
        started, clock = datetime.now(UTC), time.perf_counter()
        supervisor = Supervisor(self._settings)
        hello = supervisor.hello
        jobs = self._options.jobs or (1 if hello.info.memory == "device" else cores())
        plan = {summary.case_id: summary for summary in self._plan}
        supervisor.run(list(plan), jobs, self._set.case, lambda case, seen: self._finish(plan, case, seen))
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
        )
        reasons = failures(results, self._options.require)
        return replace(results, exit_reason="; ".join(reasons))

    def _finish(self, plan: dict[str, CaseSummary], case: Case, seen: Seen) -> None:
        summary = plan[case.case_id]
        if isinstance(seen, Death):
            self._keep(self._result(summary, Verdict(seen.outcome, seen.message)))
            return
        try:
            verdict = judge(case, seen)
            picture = None
            if verdict.mismatch is not None and verdict.outputs is not None:
                picture = tree_picture(case, verdict.mismatch, verdict.outputs)
        except Exception as error:
            verdict, picture = Verdict(Outcome.HARNESS_ERROR, f"{type(error).__name__}: {error}"), None
        with self._lock:
            self._notes.update(seen.notes)
        self._keep(self._result(summary, verdict, seen.seconds, picture))

    def _result(
        self,
        summary: CaseSummary,
        verdict: Verdict,
        seconds: float | None = None,
        tree: TreePicture | None = None,
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
            reproduce=self._reproduce(summary.case_id),
            mismatch=verdict.mismatch,
            tree=tree,
            dims=dict(summary.dims),
        )

    def _keep(self, result: CaseResult) -> None:
        with self._lock:
            self._done[result.case_id] = result
            if self._progress is not None:
                self._progress(result, len(self._done), len(self._plan))

    def _command(self, *more: str) -> str:
        words = [*shlex.split(self._program), "verify", relative(self._set.folder)]
        words += ["--target", relative_target(self._settings.target)]
        if self._options.order is not None:
            words += ["--order", self._options.order]
        if self._options.repeat != MIN_REPEAT:
            words += ["--repeat", str(self._options.repeat)]
        return shlex.join([*words, *more])

    def _reproduce(self, case_id: str) -> str:
        return self._command("--case", case_id)

    def _run_info(self, started: datetime, seconds: float, jobs: int) -> RunInfo:
        options = self._options
        named = (("-k", options.kernels), ("--flag", options.flags), ("--case", options.cases))
        more = [word for name, values in named for value in values for word in (name, value)]
        more += [word for kernel in options.require for word in ("--require", kernel)]
        return RunInfo(
            time=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            command=self._command(*more),
            suite=self._set.suite,
            fixtures=relative(self._set.folder),
            harness_version=harness.__version__,
            contract_version=f"{CONTRACT_VERSION[0]}.{CONTRACT_VERSION[1]}",
            fixture_hash=self._set.manifest.set_sha256,
            seconds=round(seconds, 3),
            options={**asdict(options), "jobs": jobs},
        )

    def _all_notes(self, hello: Hello) -> tuple[str, ...]:
        notes = [f"{note} ({count} cases)" for note, count in sorted(self._notes.items())]
        if hello.info.kind == "library" and "ATTN_LSE" not in hello.info.capabilities:
            notes.append("lse was not compared: the target does not declare ATTN_LSE")
        return tuple(notes)


def _meanings(flags: set[str]) -> dict[str, dict[str, str]]:
    known = [(name, FLAGS[name]) for name in sorted(flags) if name in FLAGS]
    return {
        name: {"probes": f.probes, "effect": f.effect, **({"links": " ".join(f.links)} if f.links else {})}
        for name, f in known
    }
