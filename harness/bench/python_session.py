"""A case on a Python target: its method is called with fresh copies of the inputs, the wall clock around it.

What the method does between its start and its return is the time, transfers included, unless it gives back a
time of its own (``timing = "event"``).
"""

from __future__ import annotations

import time

from harness.bench_results import Arrangement
from harness.case import materialize
from harness.observation import Job, Observation
from harness.replay import replay
from harness.targets.base import Target


class PythonSession:
    """A job on a target that is no shared library."""

    def __init__(self, target: Target, job: Job) -> None:
        inputs = {name: materialize(value) for name, value in job.inputs.items()}
        self._target, self._job = target, Job(job.kernel, inputs, job.scalars)

    def arrange(self, cache: str, touched: int, calls: int) -> Arrangement:
        """Nothing to set up: one call is one sample."""
        timing = self._target.identity.info.timing
        quantity = "stream events" if timing == "event" else timing
        return Arrangement(cache, quantity, 1, 1, touched, 0, "")

    def check(self) -> Observation:
        """As in a verify."""
        return replay(self._target, self._job)

    def sample(self, count: int, discard: int, fresh: bool) -> list[float]:
        """Seconds of single calls."""
        seconds = []
        for index in range(discard + count):
            start = time.perf_counter()
            round_ = self._target.run_round(self._job, index)
            whole = time.perf_counter() - start
            seconds.append(whole if round_.seconds is None else round_.seconds)
        return seconds[discard:]

    def left(self) -> Observation:
        """The calls keep nothing, so it is run again."""
        return replay(self._target, self._job)

    def alone(self, count: int) -> int:
        """One call after another, as they always are."""
        self.sample(count, 0, False)
        return count

    def stages(self, count: int) -> dict[str, list[float]]:
        """A Python target has one method a step."""
        return {}
