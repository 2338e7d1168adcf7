"""What a run of bench_attention.py comes to: verdicts per bar, JSON and Markdown. Needs no GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]  # of one shape, as bench_attention.py writes it
CEILING = 790.0  # TFLOP/s: a bf16 product of 8,192 cubed on one H200


@dataclass(frozen=True)
class Bar:
    """What some rows must reach: at least `limit`, or at most where `lower` is better."""

    name: str
    limit: float
    takes: Callable[[Row], bool]
    value: Callable[[Row], float | None]  # None: not measured
    lower: bool = False


@dataclass(frozen=True)
class Verdict:
    """A bar against the rows: `met`, `missed`, or `not measured` where a value or every row is lacking."""

    bar: str
    limit: float
    verdict: str
    worst: float | None
    worst_shape: str | None
    missed: tuple[str, ...]


def times_faster(row: Row, than: str = "fa2") -> float | None:
    """How many times as fast as a peer, medians on one buffer."""
    peer = row["times"].get(than)
    return peer["median"] / row["times"]["ours"]["median"] if peer else None


BARS = (
    Bar("1.5 x fa2 with 8 and 16 heads, 17 and 65 nodes", 1.5,
        lambda row: row["batch"] == 1 and row["heads"] in (8, 16) and row["nodes"] in (17, 65), times_faster),
    Bar("1.0 x fa2 everywhere", 1.0, lambda row: True, times_faster),
    Bar("cascade: 1.5 x with batch 1, up to 65 nodes", 1.5,
        lambda row: row["batch"] == 1 and row["nodes"] <= 65, lambda row: times_faster(row, "cascade")),
    Bar("12 us at 8 heads, 17 nodes, 1k", 12.0, lambda row: row["shape"] == "1x8x17x1k",
        lambda row: row["times"]["ours"]["median"], lower=True),
    Bar("316 TFLOP/s from 1,040 rows and 8k on", 316.0,
        lambda row: row["rows"] >= 1040 and row["prefix"] >= 8192, lambda row: row["tflops"]),
    Bar("errors within the allowance", 1.0, lambda row: True, lambda row: row["share_of_allowance"],
        lower=True),
)  # fmt: skip


def judge(bar: Bar, rows: Sequence[Row]) -> Verdict:
    """A bar against all rows that it takes."""
    taken = [row for row in rows if bar.takes(row)]
    values = [(bar.value(row), row["shape"]) for row in taken]
    found = [(value, shape) for value, shape in values if value is not None]
    missed = tuple(
        shape for value, shape in found if not (value <= bar.limit if bar.lower else value >= bar.limit)
    )
    worst, shape = max(found, default=(None, None)) if bar.lower else min(found, default=(None, None))
    complete = len(found) == len(values) > 0
    verdict = "missed" if missed else "met" if complete else "not measured"
    return Verdict(bar.name, bar.limit, verdict, worst, shape, missed)


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """All bars."""
    return [judge(bar, rows) for bar in BARS]


COLUMNS = (  # heading, time
    ("rotating", "ours rotating"), ("99 KB", "ours 99KB"), ("fa2", "fa2"), ("fa3", "fa3"),
    ("prefix", "prefix only"), ("cascade", "cascade"), ("sdpa", "sdpa"),
)  # fmt: skip


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _line(row: Row) -> str:
    times = row["times"]
    ours = times["ours"]
    cells = [str(row[key]) for key in ("batch", "heads", "nodes")]
    cells += [f"{row['prefix'] // 1024}k", str(row["rows"]), _number(ours["median"]), _number(ours["p95"])]
    cells += [f"{row['tflops']:.0f}", f"{100 * row['tflops'] / CEILING:.0f} %"]
    cells += [_number(times.get(name, {}).get("median")) for _, name in COLUMNS]
    cells += [_number(times_faster(row), 2), _number(row["share_of_allowance"], 2)]
    return "| " + " | ".join(cells) + " |"


def markdown(report: Mapping[str, Any]) -> str:
    """Verdicts, then a line for each shape; times in microseconds."""
    rows = report["rows"]
    lines = ["# verify_attn on mla rows", "", report["device"], "", f"    {report['command']}", ""]
    lines += [f"* {line}" for line in report["method"]]
    lines += ["", "| bar | verdict | worst | at | missed at |", "|---|---|---:|---|---|"]
    for verdict in report["bars"]:
        cells = [
            verdict["bar"],
            verdict["verdict"],
            _number(verdict["worst"], 2),
            verdict["worst_shape"] or "-",
        ]
        lines.append("| " + " | ".join([*cells, ", ".join(verdict["missed"]) or "-"]) + " |")
    headings = ["batch", "heads", "nodes", "prefix", "rows", "ours", "p95", "TFLOP/s", f"of {CEILING:.0f}"]
    headings += [heading for heading, _ in COLUMNS] + ["fa2 / ours", "allowance"]
    lines += ["", "| " + " | ".join(headings) + " |", "|" + "---:|" * len(headings)]
    lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def write(report: dict[str, Any], stem: Path) -> list[Verdict]:
    """Writes `stem`.json and `stem`.md; adds the verdicts to the report and returns them."""
    found = verdicts(report["rows"])
    report["bars"] = [asdict(verdict) for verdict in found]
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(report))
    return found
