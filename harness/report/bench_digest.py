"""What a timing page says, before any format: rows, groups by kernel, points of the charts, step stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from harness.bench_results import BenchCase, BenchResults, DeviceSpan, Series
from harness.results import Outcome

QUANTITIES = {
    "graph replay": "Events around the replay of a CUDA graph of all calls, divided by the calls.",
    "stream events": "Events around calls one after another: launch overhead is included.",
    "host clock": "Wall clock around the calls: launch and synchronisation are included.",
    "emulated": "Emulated: no performance figure. The times only say where this run spent itself.",
}


@dataclass(frozen=True)
class Point:
    """A median (seconds) at a size; ``label`` is the state of the cache."""

    size: int
    seconds: float
    label: str


@dataclass(frozen=True)
class StepStack:
    """A composed step (seconds) and its kernels, each timed alone."""

    case_id: str
    whole: float
    parts: tuple[tuple[str, float], ...]

    @property
    def rest(self) -> float:
        """What the step takes beyond its kernels: utilities and gaps. Below 0 where it overlaps them."""
        return self.whole - sum(seconds for _, seconds in self.parts)


def timed(results: BenchResults) -> dict[str, list[BenchCase]]:
    """Cases with times, by kernel."""
    found: dict[str, list[BenchCase]] = {}
    for case in results.cases:
        if case.series:
            found.setdefault(case.kernel, []).append(case)
    return found


def untimed(results: BenchResults) -> list[BenchCase]:
    """Cases without times, failures first."""
    bad = [case for case in results.cases if case.outcome is not Outcome.PASS]
    return sorted(bad, key=lambda case: case.outcome is Outcome.UNSUPPORTED)


def points(cases: list[BenchCase], letter: str) -> list[Point]:
    """Medians over one dimension of the contract; empty where it takes fewer than two values."""
    found = [
        Point(case.dims[letter], series.median, series.arrangement.cache)
        for case, series in _all(cases)
        if letter in case.dims
    ]
    return found if len({point.size for point in found}) > 1 else []


def shares(cases: list[BenchCase], cache: str) -> list[float]:
    """Shares of the floor of one state of the cache, rising."""
    found = (case.share_of_floor(s) for case, s in _all(cases) if s.arrangement.cache == cache)
    return sorted(share for share in found if share is not None)


def caches(results: BenchResults) -> list[str]:
    """States of the cache in which something was timed."""
    return list(dict.fromkeys(s.arrangement.cache for c in results.cases for s in c.series))


def middle(cases: list[BenchCase], cache: str) -> float | None:
    """The median of medians of one state of the cache."""
    found = [s.median for _, s in _all(cases) if s.arrangement.cache == cache]
    return median(found) if found else None


def stacks(results: BenchResults) -> list[StepStack]:
    """Composed steps whose kernels were timed alone."""
    return [
        StepStack(case.case_id, case.series[0].median, tuple((s.kernel, s.median) for s in case.stages))
        for case in results.cases
        if case.series and case.stages
    ]


def spans(results: BenchResults) -> list[tuple[BenchCase, DeviceSpan]]:
    """Every kernel that a profiler saw, by case."""
    return [(case, span) for case in results.cases for span in case.device_span or ()]


def quantities(results: BenchResults) -> list[str]:
    """How the times were taken, in words."""
    used = dict.fromkeys(s.arrangement.quantity for c in results.cases for s in c.series)
    return [QUANTITIES.get(name, name) for name in used]


def headline(results: BenchResults) -> str:
    """The first thing a reader sees."""
    many = sum(1 for case in results.cases if case.series)
    if results.exit_reason:
        return f"{many:,} of {results.planned:,} cases timed; {results.exit_reason}"
    return f"{many:,} of {results.planned:,} cases timed"


def clocks(results: BenchResults) -> str:
    """Clocks and throttle reasons over the run, in words; empty where they were not read."""
    all_series = [s.clocks for c in results.cases for s in c.series if s.clocks.sm_mhz]
    if not all_series:
        return ""
    mhz = [value for c in all_series for value in c.sm_mhz]
    reasons = sorted({reason for c in all_series for reason in c.throttle_reasons})
    throttled = sum(1 for c in all_series if c.throttle_reasons)
    text = f"SM clock {min(mhz):,} to {max(mhz):,} MHz"
    if not reasons:
        return f"{text}; no throttling seen"
    return f"{text}; {throttled} of {len(all_series)} series throttled ({', '.join(reasons)})"


def _all(cases: list[BenchCase]) -> Iterator[tuple[BenchCase, Series]]:
    return ((case, series) for case in cases for series in case.series)
