"""The files of a comparison: renderings of ``compare.json``, and nothing that is not in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.compare_results import ComparedCase, CompareResults, Standing, load_compare
from harness.report import svg
from harness.report.bench_html import run_facts
from harness.report.charts import Axis, scale
from harness.report.html import _environment
from harness.report.markdown import _cell, _code, _text
from harness.report.text import seconds
from harness.results import TargetInfo
from harness.writing import write_whole

__all__ = ["write_compare"]

MAX_ROWS, MAX_LINES = 1500, 60
_ORDER = (Standing.NO_TIMES, Standing.SLOWER, Standing.UNDECIDED, Standing.FASTER, Standing.SAME)
CLASSES = {
    Standing.NO_TIMES: "error",
    Standing.SLOWER: "fail",
    Standing.UNDECIDED: "skip",
    Standing.FASTER: "pass",
    Standing.SAME: "skip",
}
_HEIGHT = 16


def write_compare(results: CompareResults, folder: Path) -> tuple[Path, ...]:
    """Write ``compare.json``, then ``summary.md`` and ``compare.html`` from that very file."""
    truth = write_whole(folder / "compare.json", results.to_json())
    loaded = load_compare(truth)
    return (
        truth,
        write_whole(folder / "summary.md", render_markdown(loaded)),
        write_whole(folder / "compare.html", render_html(loaded)),
    )


def headline(results: CompareResults) -> str:
    """The counts in a few words, the indicative label first."""
    counts = ", ".join(f"{many:,} {name}" for name, many in results.totals.items() if many)
    label = "indicative: " if results.indicative else ""
    return f"{label}{counts or 'nothing compared'}"


def ordered(results: CompareResults) -> list[ComparedCase]:
    """What a reader acts on first; within a standing the largest ratio first."""
    return sorted(results.cases, key=lambda c: (_ORDER.index(c.standing), -(c.ratio or 0.0)))


def render_html(results: CompareResults) -> str:
    """The page: one file, offline, without scripts."""
    style = (resources.files("harness.report") / "templates" / "style.css").read_text("utf-8")
    rows = ordered(results)
    axis = ratio_axis(rows)
    context: dict[str, Any] = {
        "results": results,
        "headline": headline(results),
        "good": not results.exit_reason and not results.totals[Standing.SLOWER],
        "rows": [(case, Markup(interval(case, axis, results.min_effect))) for case in rows[:MAX_ROWS]],
        "more_rows": len(rows) - len(rows[:MAX_ROWS]),
        "axis": Markup(scale(axis)),
        "classes": CLASSES,
        "style": Markup(style),
        "facts": _facts(results),
    }
    return _environment().get_template("compare.html.j2").render(context)


def ratio_axis(cases: Sequence[ComparedCase]) -> Axis:
    """Powers of two around every interval, at least a half to two."""
    ends = [value for c in cases for value in (c.low, c.high, c.ratio) if value is not None and value > 0]
    reach = max((abs(math.log2(value)) for value in ends), default=1.0)
    power = min(max(1, math.ceil(reach)), 10)
    step = 1 + (power - 1) // 3
    powers = range(-power // step * step, power + 1, step)
    return Axis(2.0**-power, 2.0**power, True, tuple((2.0**p, _times(p)) for p in powers if abs(p) <= power))


def interval(case: ComparedCase, axis: Axis, effect: float) -> str:
    """The estimate as a dot on its interval; the band is what does not count, the upright line is 1."""
    title = case.reason or str(case.standing)
    root = svg.picture(360, _HEIGHT, title, "chart ratio")
    low, high = axis.x(1 / (1 + effect)), axis.x(1 + effect)
    svg.add(root, "rect", x=low, y=0, width=max(high - low, 0.5), height=_HEIGHT, class_="band")
    svg.add(root, "path", d=f"M{svg.number(axis.x(1.0))} 0V{_HEIGHT}", class_="grid", stroke="currentColor")
    if case.ratio is None or case.low is None or case.high is None:
        return svg.markup(root)
    css = CLASSES[case.standing]
    ends = f"M{svg.number(axis.x(case.low))} {_HEIGHT // 2}H{svg.number(axis.x(case.high) + 0.5)}"
    svg.add(root, "path", d=ends, class_=f"reach {css}", stroke="currentColor")
    svg.add(root, "circle", cx=axis.x(case.ratio), cy=_HEIGHT / 2, r=3.5, class_=f"dot {css}")
    return svg.markup(root)


def render_markdown(results: CompareResults) -> str:
    """The same for a pull request comment or a job page."""
    lines = [
        f"## {_text(headline(results))}",
        "",
        f"{_code(results.second.name, 80)} against {_code(results.first.name, 80)} · "
        f"suite {_code(results.run.suite, 40)} · smallest effect that counts {results.min_effect:.1%}",
        *(f"\n> {_text(note)}" for note in results.notes[:5]),
        "",
        "| standing | case | cache | first | second | times as long | interval |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    rows = ordered(results)
    lines += [_row(case) for case in rows[:MAX_LINES]]
    if len(rows) > MAX_LINES:
        lines += ["", f"{len(rows) - MAX_LINES:,} more in `compare.html`"]
    return "\n".join(lines) + "\n"


def _row(case: ComparedCase) -> str:
    if case.ratio is None or case.low is None or case.high is None:
        return (
            f"| {case.standing} | {_cell(case.case_id)} | {_text(case.cache)} | | | | {_text(case.reason)} |"
        )
    return (
        f"| {case.standing} | {_cell(case.case_id)} | {_text(case.cache)} | {seconds(case.first_median)} | "
        f"{seconds(case.second_median)} | {case.ratio:.3f} | {case.low:.3f} to {case.high:.3f} |"
    )


def _times(power: int) -> str:
    return "1" if power == 0 else f"{2**power}" if power > 0 else f"1/{2**-power}"


def _facts(results: CompareResults) -> list[tuple[str, str]]:
    rows = [*_side("First", results.first), *_side("Second", results.second)]
    return [*rows, *run_facts(results.run, results.environment)]


def _side(name: str, target: TargetInfo) -> list[tuple[str, str]]:
    sha = [(f"{name} library SHA-256", target.library_sha256)] if target.library_sha256 else []
    words = f"{target.name}: {target.description}" if target.description else target.name
    return [(name, words), *sha]
