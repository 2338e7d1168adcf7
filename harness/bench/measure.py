"""One case on one worker: right before, timed, right after. Anything else ends it without a record."""

from __future__ import annotations

import time

from harness.bench.ceilings import impossible
from harness.bench.child import BenchChild, Ended
from harness.bench.clocks import Monitor, clocks_of
from harness.bench.work import Work
from harness.bench_results import Arrangement, Ceilings, Series, Stage
from harness.case import Case
from harness.judge import judge
from harness.observation import Observation
from harness.results import Outcome, TargetInfo

BATCH = 10  # samples between two looks at the clocks
STAGE_SAMPLES = 15
HOST_SECONDS = 5.0  # a series on the host ends after this long, with `HOST_FEWEST` samples or more
HOST_FEWEST = 5


def caches_of(*targets: TargetInfo) -> tuple[str, ...]:
    """The states of the cache in which every case is timed on all of ``targets``.

    A Python target brings its inputs to the device in the call that it times: what is cold is its own affair.
    """
    controlled = all(target.memory == "device" and target.kind == "library" for target in targets)
    return ("cold", "warm") if controlled else ("not controlled",)


class Meter:
    """Times cases on one worker."""

    def __init__(self, child: BenchChild, monitor: Monitor, ceilings: Ceilings, samples: int) -> None:
        self._child, self._monitor, self._ceilings, self._samples = child, monitor, ceilings, samples
        self._device = child.hello.info.memory == "device"
        self.caches = caches_of(child.hello.info)

    def series(self, case: Case, work: Work, cache: str) -> Series:
        """All samples of the loaded case; Ended where an output is wrong or a time impossible."""
        arrangement = self._child.arrange(cache, work.touched)
        require_right(case, self._child.check(), "before timing")
        seconds: list[float] = []
        readings = [self._monitor.read()]
        started = time.monotonic()
        while len(seconds) < self._samples:
            batch = min(BATCH if self._device else 1, self._samples - len(seconds))
            seconds += self._child.sample(batch, discard=0 if seconds else 1, fresh=not seconds)
            readings.append(self._monitor.read())
            used = time.monotonic() - started
            if not self._device and used > HOST_SECONDS and len(seconds) >= HOST_FEWEST:
                break
        require_right(case, self._child.left(), "after timing")
        self._require_possible(arrangement, min(seconds), work)
        return Series(arrangement, tuple(seconds), clocks_of(readings))

    def stages(self) -> tuple[Stage, ...]:
        """The kernels of the loaded step one by one, as the last series was arranged; on a device only."""
        if not self._device:
            return ()
        found = self._child.stages(min(self._samples, STAGE_SAMPLES))
        return tuple(Stage(kernel, tuple(samples)) for kernel, samples in found.items())

    def _require_possible(self, arrangement: Arrangement, seconds: float, work: Work) -> None:
        if arrangement.cache == "cold" and not arrangement.cold_by:
            raise Ended(Outcome.HARNESS_ERROR, "the cache was meant to be cold and was not made so")
        reason = impossible(seconds, arrangement.cache, work, self._ceilings) if self._device else ""
        if reason:
            raise Ended(Outcome.HARNESS_ERROR, f"a time below the floor is no time: {reason}")


def require_right(case: Case, seen: Observation, when: str) -> None:
    """Ended unless the judge of a verify passes what the buffers hold. A bit may differ between buffers."""
    verdict = judge(case, seen)
    if verdict.outcome not in (Outcome.PASS, Outcome.NONDETERMINISTIC):
        raise Ended(verdict.outcome, f"{when}: {verdict.message}")
