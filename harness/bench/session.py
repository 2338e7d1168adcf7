"""A case in a worker: arranged in buffers, called, checked and timed. Sharp edges of timing stand here.

* Device: one CUDA graph holds all calls of a sample; events around its replay, divided by the calls. Launch
  gaps between the calls are part of the time, the launch of the graph is spread over them. The stream is held
  until both events and the graph are queued: else the host's own launch time would be between the events.
* Cold: every buffer is used once in a replay. Either all of them together exceed the L2 fivefold, so that
  none is left when its turn comes again, or the L2 is flushed before each replay, outside of the events.
* Warm: one buffer, again and again. What fits stays in the L2.
* kv_commit and greedy_step move rows of their own pool: from the second call on the pool is another, the
  work is the same. Their outputs are checked on pools written anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from harness.bench.copies import Copy, SingleCopy, all_ok
from harness.bench.device import L2_ROUNDS, DeviceTools, open_tools
from harness.bench.seen import observed
from harness.bench.step_copies import PARTS, StepCopy
from harness.bench_results import Arrangement
from harness.case import AnyArray, materialize
from harness.contract import KERNELS, OK, status_text
from harness.memory.space import CaptureFailed, CaptureUnavailable, Graph, Records
from harness.observation import Job, Observation
from harness.shapes import bind
from harness.targets.engine import Refused, Workspace
from harness.targets.library_target import LibraryTarget

FEWEST_CALLS, MOST_CALLS = 20, 100  # of one sample on a device
_REPLAY_SECONDS = 0.02  # a warm replay takes about this long, if the calls allow it
_HOST_SECONDS = 0.002
_MOST_BYTES = 8 << 30  # of all buffers together


class CallFailed(Exception):
    """A call of the target returned something other than OK, or cannot be captured."""


class Session(Protocol):
    """One job on one target, ready to be timed."""

    def arrange(self, cache: str, touched: int, calls: int) -> Arrangement:
        """Set up buffers. ``touched``: bytes of live data of one call; ``calls`` of a sample, 0: choose."""

    def check(self) -> Observation:
        """Write all buffers anew, run one sample, bring back what it left."""

    def sample(self, count: int, discard: int, fresh: bool) -> list[float]:
        """Seconds of one call, of ``count`` samples after ``discard`` that are not kept.

        ``fresh``: write all buffers anew first, outputs with another poison than `check` had.
        """

    def left(self) -> Observation:
        """What the timed calls left, in every buffer."""

    def stages(self, count: int) -> dict[str, list[float]]:
        """Samples of each kernel of a composed step alone; empty for other kernels."""

    def alone(self, count: int) -> int:
        """``count`` calls or some more, none of which meets another on the device; how many."""


class LibrarySession:
    """A job on a shared library."""

    def __init__(self, target: LibraryTarget, job: Job, tools: DeviceTools | None) -> None:
        self._target, self._tools = target, tools
        self._engine = target.engine
        self._kernel = job.kernel
        names = {s.name for s in KERNELS[job.kernel].scalars}
        self._scalars = {name: value for name, value in job.scalars.items() if name in names}
        self._inputs: dict[str, AnyArray] = {name: materialize(v) for name, v in job.inputs.items()}
        self._dims = bind(KERNELS[job.kernel], self._inputs, self._scalars)
        self._copies: list[Copy] = []
        self._rounds, self._cold_by = 1, ""
        self._replay: Callable[[], int] = self._once
        self._check: Callable[[], int] = self._once
        self._in_place = any(a.role == "inout" for a in KERNELS[job.kernel].arrays)

    def arrange(self, cache: str, touched: int, calls: int) -> Arrangement:
        """Buffers, calls and, on a device, the graph."""
        self._replay = self._check = self._once  # graphs go before the buffers that they use
        self._copies.clear()
        first = self._copy(None)
        self._copies.append(first)
        l2 = self._tools.l2_bytes if self._tools else 0
        if cache == "cold" and self._tools is not None:
            self._rotate(first, touched, l2, self._tools)
        else:
            self._cold_by = ""
            self._rounds = calls or self._calls_for(first)
        quantity = self._record()
        buffers = len(self._copies)
        return Arrangement(
            cache, quantity, buffers * self._rounds, buffers, buffers * touched, l2, self._cold_by
        )

    def check(self) -> Observation:
        """One sample on buffers written anew, each with a poison of its own."""
        self._stage(0)
        self._timed(self._check)
        return self._seen()

    def sample(self, count: int, discard: int, fresh: bool) -> list[float]:
        """Seconds a call."""
        if fresh:
            self._stage(1)
        return self._samples(count, discard, self._replay, lambda copy: copy.plan())

    def left(self) -> Observation:
        """Straight from the timed calls; for kernels that work in place, from one more on fresh pools."""
        if self._in_place:
            self._stage(1)
            self._timed(self._check)
        return self._seen()

    def stages(self, count: int) -> dict[str, list[float]]:
        """Each kernel alone, on the buffers of the step."""
        if self._kernel != "greedy_step":
            return {}
        self._stage(0)
        self._timed(self._once)
        found = {}
        for part in PARTS:
            replay, _ = self._recorded(partial(all_ok, self._copies, self._rounds, part))
            found[part] = self._samples(count, 1, replay, partial(_plan_part, part))
        return found

    def alone(self, count: int) -> int:
        """Each buffer in turn, so that cold stays cold, by a graph of one call."""
        calls = [self._recorded(copy.call)[0] for copy in self._copies]
        rounds = math.ceil(count / len(calls))
        for _ in range(rounds):
            for copy, call in zip(self._copies, calls, strict=True):
                copy.plan()
                self._timed(call)
        return rounds * len(calls)

    def _samples(
        self, count: int, discard: int, replay: Callable[[], int], plan: Callable[[Copy], None]
    ) -> list[float]:
        seconds = []
        for _ in range(discard + count):
            for copy in self._copies:
                plan(copy)
            seconds.append(self._timed(replay) / (len(self._copies) * self._rounds))
        return seconds[discard:]

    def _rotate(self, first: Copy, touched: int, l2: int, tools: DeviceTools) -> None:
        """As many copies as five sizes of the L2 take, or a flush where that many do not fit."""
        wanted = math.ceil(L2_ROUNDS * l2 / max(touched, 1)) + 1
        room = max(2, min(tools.free_bytes() // 2, _MOST_BYTES) // max(first.nbytes, 1))
        count = min(max(wanted, FEWEST_CALLS), MOST_CALLS, room)
        self._copies += [self._copy(first) for _ in range(count - 1)]
        self._rounds = 1
        self._cold_by = "rotation" if count * touched > L2_ROUNDS * l2 else "flush"

    def _calls_for(self, copy: Copy) -> int:
        """How many calls make a sample of a sensible length."""
        copy.stage(0)
        copy.plan()
        once = min(self._timed(copy.call) for _ in range(2))
        if self._tools is not None:
            return min(max(math.ceil(_REPLAY_SECONDS / max(once, 1e-6)), FEWEST_CALLS), MOST_CALLS)
        return min(max(math.ceil(_HOST_SECONDS / max(once, 1e-6)), 1), MOST_CALLS)

    def _record(self) -> str:
        self._stage(0)
        self._timed(self._once)  # lazy loading and one-time set-up happen here, not in the capture
        self._replay, quantity = self._recorded(partial(all_ok, self._copies, self._rounds))
        self._check = self._replay
        if self._in_place and self._rounds > 1:  # one call each: a second would move moved rows
            self._check, _ = self._recorded(self._once)
        return quantity

    def _recorded(self, calls: Callable[[], int]) -> tuple[Callable[[], int], str]:
        space = self._engine.space
        if not isinstance(space, Records):
            return calls, "emulated" if self._engine.emulator is not None else "host clock"
        try:
            graph: Graph = space.record(calls)
        except CaptureUnavailable:
            return calls, "stream events"
        except CaptureFailed as reason:
            raise CallFailed(f"the calls cannot be captured in a graph: {reason}") from reason
        return graph.launch, "graph replay"

    def _once(self) -> int:
        return all_ok(self._copies)

    def _timed(self, call: Callable[[], int]) -> float:
        if self._engine.emulator is not None:
            self._engine.emulator.prepare(0)
        if self._cold_by == "flush" and self._tools is not None:
            self._tools.flush()
        if self._tools is not None:
            self._tools.hold()
        status, seconds = self._engine.space.timed(call)
        if status != OK:
            report = self._engine.emulator.report() if self._engine.emulator is not None else ""
            raise CallFailed(f"a call returned {status_text(status)}" + (f": {report}" if report else ""))
        return seconds

    def _stage(self, poison: int) -> None:
        for index, copy in enumerate(self._copies):
            copy.stage(poison + index)
            copy.plan()

    def _seen(self) -> Observation:
        return observed(self._target, (copy.round() for copy in self._copies))

    def _copy(self, shared: Copy | None) -> Copy:
        index = len(self._copies)
        try:
            if self._kernel == "greedy_step":
                step = cast("StepCopy | None", shared)
                return StepCopy(self._engine, self._inputs, self._scalars, self._dims, index, step)
            workspace: Workspace | None = shared.workspace if isinstance(shared, SingleCopy) else None
            return SingleCopy(
                self._engine, self._kernel, self._inputs, self._scalars, self._dims, index, workspace
            )
        except Refused as refused:
            raise CallFailed(str(refused)) from refused


def _plan_part(part: str, copy: Copy) -> None:
    cast(StepCopy, copy).plan_part(part)


def tools_of(target: object) -> DeviceTools | None:
    """Device tools where the target works on device memory of this process."""
    return open_tools(target.engine.space) if isinstance(target, LibraryTarget) else None
