"""A summary of a bench for a pull request comment or a job page."""

from __future__ import annotations

from harness.bench_results import BenchCase, BenchResults
from harness.report import bench_digest
from harness.report.markdown import _cell, _code, _text
from harness.report.text import percent, seconds

MAX_ROWS = 60
SPANS = "Kernels on the device. Spans overlap where kernels do, and may add up to more than the call."


def render(results: BenchResults) -> str:
    """The Markdown text."""
    blocks = [
        f"## {_text(bench_digest.headline(results))}",
        f"target {_code(results.target.name, 80)} · suite {_code(results.run.suite, 40)} · "
        f"{_code(results.environment.facts.get('device', results.environment.facts.get('cpu', '')), 80)}",
        " ".join(_text(line) for line in bench_digest.quantities(results)),
        *(f"> {_text(note)}" for note in results.notes[:5]),
    ]
    if text := bench_digest.clocks(results):
        blocks.append(_text(text))
    blocks += [_untimed(results), _table(results), _spans(results)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _untimed(results: BenchResults) -> str:
    bad = bench_digest.untimed(results)
    lines = [f"- **{c.outcome}** {_code(c.case_id, 160)}: {_text(c.message)}" for c in bad[:10]]
    if len(bad) > 10:
        lines.append(f"- and {len(bad) - 10:,} more in `bench.json`")
    return "\n".join(lines)


def _table(results: BenchResults) -> str:
    rows = [row for cases in bench_digest.timed(results).values() for case in cases for row in _rows(case)]
    if not rows:
        return ""
    head = "| case | cache | median | p95 | min | samples | of floor |\n|---|---|---:|---:|---:|---:|---:|\n"
    more = f"\n\n{len(rows) - MAX_ROWS:,} more in `timing.html`" if len(rows) > MAX_ROWS else ""
    return head + "\n".join(rows[:MAX_ROWS]) + more


def _spans(results: BenchResults) -> str:
    """Kernels of the calls that launch several; the others have one span, close to their time."""
    rows = [
        f"| {_cell(case.case_id)} | {_text(span.cache)} | {_cell(span.kernel)} | {span.launches:g} | "
        f"{seconds(span.median)} | {percent(case.share_of_call(span))} |"
        for case in results.cases
        for span in case.parts
    ]
    if not rows:
        return ""
    head = "| case | cache | kernel | launches | median span | of the call |\n|---|---|---|---:|---:|---:|\n"
    more = f"\n\n{len(rows) - MAX_ROWS:,} more in `timing.html`" if len(rows) > MAX_ROWS else ""
    return f"{SPANS}\n\n{head}" + "\n".join(rows[:MAX_ROWS]) + more


def _rows(case: BenchCase) -> list[str]:
    rows = []
    for series in case.series:
        share = case.share_of_floor(series)
        rows.append(
            f"| {_cell(case.case_id)} | {_text(series.arrangement.cache)} | {seconds(series.median)} | "
            f"{seconds(series.p95)} | {seconds(series.min)} | {series.count} | "
            f"{percent(share)} |"
        )
    return rows
