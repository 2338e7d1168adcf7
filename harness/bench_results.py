"""The truth of a bench: `bench.json`, from which every timing page is rendered.

Frozen dataclasses with a versioned JSON form (``harness/bench.schema.json``). All times are seconds of one
call, all sizes bytes. Every sample is kept, in the order in which it was taken.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.results import Environment, Outcome, RunInfo, TargetInfo
from harness.typed_json import build, load

BENCH_SCHEMA = "ddtree-bench"
BENCH_VERSION = 1
_DERIVED = ("min", "median", "p95", "count")


@dataclass(frozen=True)
class Arrangement:
    """How the samples of a series were taken."""

    cache: str  # cold | warm | not controlled
    quantity: str  # graph replay | stream events | host clock | emulated
    calls: int  # calls in one sample; their time is divided by this
    buffers: int  # distinct copies of all arrays, used in turn
    distinct_bytes: int  # bytes of live data that the calls of one round over the buffers touch
    l2_bytes: int  # 0 where it is not known
    cold_by: str  # rotation | flush | "" where the cache is not cold


@dataclass(frozen=True)
class Clocks:
    """What the device said while it was timed; empty where it could not be asked."""

    sm_mhz: tuple[int, ...] = ()
    memory_mhz: tuple[int, ...] = ()
    celsius: tuple[int, ...] = ()
    throttle_reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """All samples of one case under one arrangement."""

    arrangement: Arrangement
    seconds: tuple[float, ...]
    clocks: Clocks

    @property
    def min(self) -> float:
        """The fastest sample."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle of the samples."""
        return quantile(self.seconds, 0.5)

    @property
    def p95(self) -> float:
        """19 of 20 samples are no slower."""
        return quantile(self.seconds, 0.95)

    @property
    def count(self) -> int:
        """How many samples."""
        return len(self.seconds)


@dataclass(frozen=True)
class Stage:
    """One kernel of the composed step, timed alone on the same buffers, in the same way."""

    kernel: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the samples."""
        return quantile(self.seconds, 0.5)


@dataclass(frozen=True)
class DeviceSpan:
    """One kernel in single calls, as a profiler saw it: from its first block's start to its last's end.

    Kernels of a call that overlap have spans that overlap, and the calls of a series overlap too where theirs
    do: spans may add up to more than a call takes there.
    """

    cache: str  # of the series: cold | warm | not controlled
    kernel: str
    launches: float  # in one call
    min: float
    median: float
    p95: float
    count: int  # spans seen

    @property
    def seconds(self) -> float:
        """Of one call, all launches together."""
        return self.launches * self.median


@dataclass(frozen=True)
class Floor:
    """What the live nodes of the actual tree cost at least, whatever the padded shape."""

    read_bytes: int
    written_bytes: int
    flops: int
    live_nodes: int
    seconds: float | None  # no series may be faster when cold; None without a ceiling
    warm_seconds: float | None  # arithmetic alone: a warm cache may serve every byte


@dataclass(frozen=True)
class Ceilings:
    """What the device can do at most. None where it is not known; never a guess."""

    bytes_per_second: float | None
    bytes_source: str
    flops_per_second: float | None
    flops_source: str


@dataclass(frozen=True)
class BenchCase:
    """One case of a bench. Only a PASS has series."""

    case_id: str
    kernel: str
    family: str
    flags: tuple[str, ...]
    outcome: Outcome
    message: str
    reproduce: str
    dims: Mapping[str, int]
    floor: Floor
    series: tuple[Series, ...]
    stages: tuple[Stage, ...]
    device_span: tuple[DeviceSpan, ...] | None  # None: not measured, and a note says why

    def share_of_floor(self, series: Series) -> float | None:
        """Floor over median: 1 is the roofline. None without a floor for this arrangement."""
        cold = series.arrangement.cache == "cold"
        floor = self.floor.seconds if cold else self.floor.warm_seconds
        return floor / series.median if floor and series.median > 0 else None

    @property
    def parts(self) -> tuple[DeviceSpan, ...]:
        """The spans, where a call launches several kernels: there they say what the call spends itself on."""
        spans = self.device_span or ()
        return spans if len({span.kernel for span in spans}) > 1 else ()

    def share_of_call(self, span: DeviceSpan) -> float | None:
        """A kernel's spans in one call over the median of the series. None without that series."""
        series = next((s for s in self.series if s.arrangement.cache == span.cache), None)
        return span.seconds / series.median if series else None


@dataclass(frozen=True)
class BenchResults:
    """One bench."""

    run: RunInfo
    environment: Environment
    target: TargetInfo
    ceilings: Ceilings
    planned: int
    cases: tuple[BenchCase, ...]
    notes: tuple[str, ...] = ()
    exit_code: int | None = None
    exit_reason: str = ""

    @property
    def totals(self) -> dict[str, int]:
        """Cases by outcome, every outcome named."""
        counted = Counter(case.outcome for case in self.cases)
        return {str(outcome): counted.get(outcome, 0) for outcome in Outcome}

    def to_json(self) -> str:
        """The JSON text of ``bench.json``."""
        fields: dict[str, Any] = asdict(self)
        fields["environment"] = dict(self.environment.facts)
        for case, body in zip(self.cases, fields["cases"], strict=True):
            for series, entry in zip(case.series, body["series"], strict=True):
                entry.update({name: getattr(series, name) for name in _DERIVED})
        body = {"schema": BENCH_SCHEMA, "schema_version": BENCH_VERSION, "totals": self.totals, **fields}
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load_bench(path: Path) -> BenchResults:
    """Read ``bench.json``. UsageProblem where it is not one of a known version, or damaged."""
    return load(path, BENCH_SCHEMA, BENCH_VERSION, "harness bench", "bench file", _from_body)


def _from_body(body: Mapping[str, Any]) -> BenchResults:
    for case in body["cases"]:
        for series in case["series"]:
            for name in _DERIVED:
                del series[name]
    fields = {k: v for k, v in body.items() if k not in ("schema", "schema_version", "totals")}
    made: BenchResults = build(BenchResults, {**fields, "environment": {"facts": body["environment"]}})
    samples = [one.seconds for case in made.cases for one in case.series]
    samples += [one.seconds for case in made.cases for one in case.stages]
    if body["totals"] != made.totals or not all(samples):
        raise ValueError("totals or samples do not fit the cases")
    return made


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least ``part`` of the values do not exceed; the mean of two for a median."""
    ordered = sorted(values)
    if part == 0.5 and len(ordered) % 2 == 0:
        middle = len(ordered) // 2
        return (ordered[middle - 1] + ordered[middle]) / 2
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
