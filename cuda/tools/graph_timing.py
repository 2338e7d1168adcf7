"""Times calls by replays of captured graphs; on host memory, where nothing is captured, by the clock.

A sample is the time between two events around one replay, divided by the calls in it. The stream is held
until events and graph are queued, so that the host's own time is not between the events; where it is not
held, the host's launch of the graph is part of the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from harness.bench.device import DeviceTools
from harness.bench.session import tools_of
from harness.contract import OK, status_text
from harness.memory.space import Records, Space
from harness.targets.engine import Engine
from harness.targets.library_target import LibraryTarget

DISCARDED = 5  # first samples of a series
Enqueue = Callable[[], int]


@dataclass(frozen=True)
class Times:
    """A series of samples, in microseconds of one call."""

    min: float
    median: float
    p95: float
    count: int

    @classmethod
    def of(cls, microseconds: Sequence[float]) -> Times:
        """The numbers of a series, rounded to nanoseconds."""
        low, middle, high = (round(float(np.percentile(microseconds, q)), 3) for q in (0, 50, 95))
        return cls(low, middle, high, len(microseconds))


class Stopwatch:
    """Captures and times calls of one library."""

    def __init__(self, target: LibraryTarget) -> None:
        self.engine: Engine = target.engine
        self.space: Space = self.engine.space
        self.tools: DeviceTools | None = tools_of(target)

    @property
    def quantity(self) -> str:
        """What a sample is."""
        if self.tools is not None:
            return "graph replay"
        return "emulated" if self.engine.emulator is not None else "host clock"

    def capture(self, calls: Sequence[Enqueue]) -> Enqueue:
        """Launches all ``calls``; they ran once before, so that nothing is set up in the capture."""
        enqueue = partial(_all, calls)
        self.once(enqueue)
        return self.space.record(enqueue).launch if isinstance(self.space, Records) else enqueue

    def once(self, enqueue: Enqueue, held: bool = True) -> float:
        """Seconds of one replay."""
        if self.engine.emulator is not None:
            self.engine.emulator.prepare(0)
        if self.tools is not None and held:
            self.tools.hold()
        status, seconds = self.space.timed(enqueue)
        if status != OK:
            raise RuntimeError(f"a call returned {status_text(status)}")
        return seconds

    def samples(self, graphs: Sequence[Enqueue], calls: int, count: int, held: bool = True) -> Times:
        """``count`` samples; the graphs take turns, each holds ``calls``."""
        seconds = [self.once(graphs[i % len(graphs)], held) for i in range(DISCARDED + count)]
        return Times.of([1e6 * s / calls for s in seconds[DISCARDED:]])


def _all(calls: Sequence[Enqueue]) -> int:
    return next((status for status in (call() for call in calls) if status != OK), OK)
