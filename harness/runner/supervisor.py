"""Runs a plan of cases on worker processes: one case in flight per worker, the dead replaced.

While a worker runs one case, its thread here judges the one before. Expected values never leave this process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

from harness.case import Case
from harness.errors import HarnessError
from harness.observation import Job, Observation
from harness.runner.child import Child, Death, Hello
from harness.targets.base import Options

MAX_DEATHS = 50  # after so many dead workers the rest of a plan is not run

Seen = Observation | Death
Load = Callable[[str], Case]
Finish = Callable[[Case, Seen], None]


@dataclass(frozen=True)
class Settings:
    """How cases are run."""

    target: str
    options: Options
    repeat: int
    timeout: float


class Supervisor:
    """Workers of one target. The first is started at once, so that a target that cannot be opened shows."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # a fixture file is read by one thread at a time
        self._children: set[Child] = set()
        self._spare: list[Child] = [self._spawn()]
        self._plan: list[str] = []
        self._deaths = 0
        self.stopped = ""  # why the rest of the plan was not run

    @property
    def hello(self) -> Hello:
        """What the target says about itself."""
        return self._spare[0].hello

    def run(self, plan: Sequence[str], jobs: int, load: Load, finish: Finish) -> None:
        """Run every case of ``plan``; ``finish`` is called from several threads.

        After `MAX_DEATHS` dead workers, or when none can be started, the rest is left and `stopped` says so.
        """
        self._plan = list(reversed(plan))
        try:
            count = max(1, min(jobs, len(plan)))
            with ThreadPoolExecutor(count) as pool:
                threads = [pool.submit(self._serve, load, finish) for _ in range(count)]
                try:
                    for thread in wait(threads, return_when=FIRST_EXCEPTION).done:
                        thread.result()
                except BaseException:
                    self._plan.clear()
                    for child in list(self._children):
                        child.kill()
                    raise
        finally:
            self.close()

    def close(self) -> None:
        """End all workers."""
        for child in list(self._children):
            self._bury(child)

    def _serve(self, load: Load, finish: Finish) -> None:
        child: Child | None = None
        done: tuple[Case, Seen] | None = None
        while True:
            case_id = self._next()
            child = child or (self._start() if case_id else None)
            case = self._loaded(load, case_id) if case_id and child else None
            if case is not None and child is not None:
                child.send(Job(case.kernel, case.inputs, case.scalars), self._settings.repeat)
            if done is not None:
                finish(*done)
            if case is None or child is None:
                return
            seen = child.result(self._settings.timeout)
            done = case, seen
            if isinstance(seen, Death) and seen.replace:
                self._bury(child)
                child = None
                self._count_death()

    def _next(self) -> str | None:
        with self._lock:
            return self._plan.pop() if self._plan else None

    def _loaded(self, load: Load, case_id: str) -> Case:
        with self._reading:
            return load(case_id)

    def _spawn(self) -> Child:
        child = Child(self._settings.target, self._settings.options)
        with self._lock:
            self._children.add(child)
        return child

    def _start(self) -> Child | None:
        with self._lock:
            if self._spare:
                return self._spare.pop()
        try:
            return self._spawn()
        except HarnessError as error:
            self._stop(f"no worker can be started any more: {error}")
            return None

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
