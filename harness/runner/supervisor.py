"""Runs a plan of cases on worker processes: one case in flight per worker, the dead replaced.

While a worker runs one case, its thread here judges the one before and sends the job of the one after, which
the worker takes when it has answered: it never waits. Expected values never leave this process.
A case that kills a worker which ran others before is run again, alone: that parts culprit from victim.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from time import monotonic

from harness.case import Case
from harness.errors import HarnessError
from harness.observation import Job, Observation
from harness.runner import wire
from harness.runner.child import Child, Death, Hello
from harness.targets.base import Options

MAX_DEATHS = 50  # after so many dead workers the rest of a plan is not run


@dataclass(frozen=True)
class Victim:
    """A case in which a worker died that does not die of it alone: ``suspect`` ran before it there."""

    seen: Observation | Death  # alone, in a fresh worker
    suspect: str
    death: Death


Seen = Observation | Death | Victim
Load = Callable[[str], Case]
Finish = Callable[[Case, Seen], None]


@dataclass(frozen=True)
class Settings:
    """How cases are run."""

    target: str
    options: Options
    repeat: int
    timeout: float
    budget: float | None = None  # seconds after which no further case is begun


@dataclass(frozen=True)
class _Ready:
    """A case and its job, ready to be sent."""

    case: Case
    frame: wire.Frame


class Supervisor:
    """Workers of one target. ``ready`` of them are started at once: a target that cannot be opened shows."""

    def __init__(self, settings: Settings, ready: int = 1) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # a fixture file is read by one thread at a time
        self._children: set[Child] = set()
        self._plan: list[str] = []
        self._deaths = 0
        self._deadline: float | None = None
        self._abandoned = False  # nobody wants the results any more
        self.stopped = ""  # why the rest of the plan was not run
        try:
            with ThreadPoolExecutor(ready) as pool:
                self._spare = list(pool.map(lambda _: self._spawn(), range(ready)))
        except BaseException:
            self.close()
            raise

    @property
    def hello(self) -> Hello:
        """What the target says about itself; before `run`."""
        return self._spare[0].hello

    def run(self, plan: Sequence[str], jobs: int, load: Load, finish: Finish) -> None:
        """Run every case of ``plan``; ``finish`` is called from several threads.

        After `MAX_DEATHS` dead workers, when none can be started, or when the budget is used, the rest is
        left and `stopped` says so.
        """
        self._plan = list(reversed(plan))
        if self._settings.budget is not None:
            self._deadline = monotonic() + self._settings.budget
        try:
            count = max(1, min(jobs, len(plan)))
            with ThreadPoolExecutor(count) as pool:
                threads = [pool.submit(self._serve, load, finish) for _ in range(count)]
                try:
                    for thread in wait(threads, return_when=FIRST_EXCEPTION).done:
                        thread.result()
                except BaseException:
                    self._abandon()
                    raise
        finally:
            self.close()

    def close(self) -> None:
        """End all workers."""
        for child in list(self._children):
            self._bury(child)

    def _serve(self, load: Load, finish: Finish) -> None:
        child: Child | None = None
        before = ""  # the case that the child ran last
        done: tuple[Case, Seen] | None = None
        ready = self._next(load)
        rest = ready.frame if ready is not None else []  # of the job of ``ready``, not yet sent to the child
        while ready is not None and not self._over():
            child = child or self._start()
            if child is None:
                break
            child.post(rest)
            if done is not None:
                finish(*done)
            following = self._next(load)
            unsent = child.offer(following.frame) if following is not None else []
            kept, seen = self._result(child)
            if before and isinstance(seen, Death) and seen.replace:
                kept, seen = self._alone(ready.frame, seen, before)
            before = ready.case.case_id if kept is not None else ""
            done = ready.case, seen
            rest = unsent if kept is child or following is None else following.frame
            child, ready = kept, following
        if ready is not None and child is not None:
            child.kill()  # stopped early: it may be at the job that was sent ahead, which nobody waits for
        if done is not None:
            finish(*done)

    def _result(self, child: Child) -> tuple[Child | None, Seen]:
        """What became of the case in flight, and the child where it may run another.

        It may not where it died, or where the case wrote outside of its arrays.
        """
        seen = child.result(self._settings.timeout)
        if isinstance(seen, Death) and seen.replace:
            self._bury(child)
            self._count_death()
            return None, seen
        if isinstance(seen, Observation) and seen.guard_hits:
            self._bury(child)
            return None, seen
        return child, seen

    def _alone(self, frame: wire.Frame, death: Death, before: str) -> tuple[Child | None, Seen]:
        """Run a job again in a fresh worker, after it died in one that ran ``before``."""
        fresh = self._start()
        if fresh is None:
            return None, death
        fresh.post(frame)
        child, seen = self._result(fresh)
        assert not isinstance(seen, Victim)
        if isinstance(seen, Death) and seen.replace:
            return None, replace(seen, message=f"{seen.message} (alone in a fresh worker, too)")
        return child, Victim(seen, before, death)

    def _next(self, load: Load) -> _Ready | None:
        with self._lock:
            case_id = self._plan.pop() if self._plan else None
        if case_id is None:
            return None
        with self._reading:
            case = load(case_id)
        job = Job(case.kernel, case.inputs, case.scalars)
        return _Ready(case, wire.job_frame(job, self._settings.repeat))

    def _over(self) -> bool:
        """True where no further case is to begin."""
        if self._deadline is not None and monotonic() >= self._deadline:
            self._stop(f"the budget of {self._settings.budget:g} s was used")
        return bool(self.stopped)

    def _spawn(self) -> Child:
        child = Child(self._settings.target, self._settings.options, self._settings.timeout)
        with self._lock:
            self._children.add(child)
            abandoned = self._abandoned
        if abandoned:
            child.kill()
        return child

    def _start(self) -> Child | None:
        with self._lock:
            if self._abandoned:
                return None
            if self._spare:
                return self._spare.pop()
        try:
            return self._spawn()
        except HarnessError as error:
            self._stop(f"no worker can be started any more: {error}")
            return None

    def _abandon(self) -> None:
        """End all workers at once, and start no other: what dies of this is not run again."""
        with self._lock:
            self._abandoned = True
            self._plan.clear()
        for child in list(self._children):
            child.kill()

    def _count_death(self) -> None:
        with self._lock:
            self._deaths += 1
        if self._deaths >= MAX_DEATHS:
            self._stop(f"{self._deaths} workers died")

    def _stop(self, reason: str) -> None:
        with self._lock:
            self.stopped = self.stopped or reason
            self._plan.clear()

    def _bury(self, child: Child) -> None:
        with self._lock:
            self._children.discard(child)
        child.close()
