"""The truth of a run of bench_trees.py, as JSON, and the summary that is rendered from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graph_timing import Times

SCHEMA, VERSION = "ddtree-trees", 1

GRID_KINDS = ("even", "decisive", "flat")  # of rows, that have bars
# Microseconds that a median should stay below, by the name of the measurement.
BARS: dict[str, float] = {
    **{f"tree_build 64 {kind}": 8.0 for kind in GRID_KINDS},
    **{f"tree_build 256 {kind}": 15.0 for kind in GRID_KINDS},
    **{f"tree_build 1024 {kind}": 30.0 for kind in GRID_KINDS},
    **{f"tree_build 64 x 32 {kind}": 12.0 for kind in GRID_KINDS},
    **{f"tree_accept 65 x {batch}": 2.5 for batch in (1, 32)},
    **{f"tree_accept 1025 x {batch}": 3.5 for batch in (1, 32)},
    "kv_commit from HBM": 2.5,
    "kv_commit in L2": 2.5,
    "chain": 15.0,
}
# (what is slower, what is faster, how many times it should be, None where that is only stated).
RATIO_BARS: tuple[tuple[str, str, float | None], ...] = (
    *(
        (f"host builder {width} {kind}", f"tree_build {width} {kind}", bar if kind == "decisive" else None)
        for width, bar in ((64, 30.0), (1024, 150.0))
        for kind in GRID_KINDS
    ),
    *((f"walk 65 x {batch}", f"tree_accept 65 x {batch}", 4.0) for batch in (1, 32)),
    *((f"walk 1025 x {batch}", f"tree_accept 1025 x {batch}", 40.0) for batch in (1, 32)),
)


@dataclass(frozen=True)
class Measurement:
    """One series. Times are microseconds of one call."""

    name: str
    section: str
    inputs: str
    method: str  # graph replay | graph replay, not held | host clock | emulated
    calls: int  # in one sample
    count: int
    min_us: float
    median_us: float
    p95_us: float
    bar_us: float | None
    met: bool | None
    sets: int  # input sets, each compared with the references before and after timing; 0: nothing to compare


@dataclass(frozen=True)
class Ratio:
    """How many times faster one measurement is than another of the same run, by their medians."""

    slower: str
    faster: str
    times: float
    bar: float | None
    met: bool | None


@dataclass(frozen=True)
class Run:
    """Everything that one command measured."""

    command: tuple[str, ...]
    started: str
    seconds: float
    facts: dict[str, str]
    libraries: dict[str, dict[str, str]]
    clocks: dict[str, dict[str, Any]]  # before, after
    method: tuple[str, ...]
    measurements: tuple[Measurement, ...]
    ratios: tuple[Ratio, ...]

    def to_json(self) -> str:
        """The JSON text, ending with a newline."""
        return json.dumps({"schema": SCHEMA, "version": VERSION, **asdict(self)}, indent=1) + "\n"


def measured(
    name: str, section: str, inputs: str, times: Times, *, method: str, calls: int, sets: int
) -> Measurement:
    """A measurement against its bar; what is emulated is held to none."""
    bar = None if method == "emulated" else BARS.get(name)
    return Measurement(
        name, section, inputs, method, calls, times.count, times.min, times.median, times.p95,
        bar, None if bar is None else times.median <= bar, sets,
    )  # fmt: skip


def ratios_of(measurements: Sequence[Measurement]) -> tuple[Ratio, ...]:
    """The ratios both of whose ends were measured, on a device."""
    by_name = {m.name: m for m in measurements if m.method != "emulated"}
    made = []
    for slower, faster, bar in RATIO_BARS:
        if slower in by_name and faster in by_name:
            times = by_name[slower].median_us / by_name[faster].median_us
            made.append(Ratio(slower, faster, round(times, 1), bar, None if bar is None else times >= bar))
    return tuple(made)


def markdown(body: dict[str, Any]) -> str:
    """The summary of a parsed JSON file."""
    facts, clocks = body["facts"], body["clocks"]
    lines = ["# Tree kernels: times", "", f"`{' '.join(body['command'])}`", ""]
    lines += [f"{key}: {value}  " for key, value in facts.items()]
    lines += [
        f"library: {v['description']}, {name}, sha256 {v['sha256'][:12]}  "
        for name, v in body["libraries"].items()
    ]
    lines += [f"{when}: {_reading(reading)}  " for when, reading in clocks.items()]
    lines += [f"started {body['started']}, {body['seconds']:.0f} s", "", *(f"* {m}" for m in body["method"])]
    for section in dict.fromkeys(m["section"] for m in body["measurements"]):
        lines += ["", f"## {section}", "", "| what | inputs | min | median | p95 | samples x calls | bar |"]
        lines += ["|---|---|---:|---:|---:|---:|---|"]
        lines += [_row(m) for m in body["measurements"] if m["section"] == section]
    lines += ["", "## Ratios of medians", "", "| slower | faster | times | bar |", "|---|---|---:|---|"]
    lines += [
        f"| {r['slower']} | {r['faster']} | {r['times']:.1f} | {_bar(r['bar'], r['met'], '')} |"
        for r in body["ratios"]
    ]
    return "\n".join(lines) + "\n"


def write(folder: Path, run: Run) -> None:
    """``trees.json`` and ``trees.md``."""
    folder.mkdir(parents=True, exist_ok=True)
    text = run.to_json()
    (folder / "trees.json").write_text(text, encoding="utf-8")
    (folder / "trees.md").write_text(markdown(json.loads(text)), encoding="utf-8")


def _row(m: dict[str, Any]) -> str:
    name = m["name"] if m["method"] == "graph replay" else f"{m['name']} ({m['method']})"
    cells = [name, m["inputs"], *(f"{m[key]:.2f}" for key in ("min_us", "median_us", "p95_us"))]
    cells += [f"{m['count']} x {m['calls']}", _bar(m["bar_us"], m["met"], " µs")]
    return f"| {' | '.join(cells)} |"


def _bar(bar: float | None, met: bool | None, unit: str) -> str:
    return "" if bar is None else f"{bar:g}{unit} {'met' if met else 'MISSED'}"


def _reading(reading: dict[str, Any]) -> str:
    if "unavailable" in reading:
        return f"clocks not read ({reading['unavailable']})"
    reasons = ", ".join(reading["reasons"]) or "no throttling"
    return (
        f"SM {reading['sm_mhz']} MHz, memory {reading['memory_mhz']} MHz, {reading['celsius']} °C, {reasons}"
    )
