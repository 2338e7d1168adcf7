"""The timing page: one file, offline, without scripts, in the style of the report page."""

from __future__ import annotations

from importlib import resources
from typing import Any

from markupsafe import Markup

from harness.bench_results import BenchCase, BenchResults
from harness.report import bench_charts, bench_digest, charts
from harness.report.html import _environment
from harness.results import Environment, RunInfo

MAX_ROWS, MAX_STACKS, MAX_UNTIMED = 1500, 60, 100
MAX_OPEN = 40  # rows of a table that stands open
PARTS = ("tree_build", "verify_attn", "tree_accept", "kv_commit")
_AXES = (("N", "node slots (budget + 1)"), ("B", "requests"))


def render(results: BenchResults) -> str:
    """The page."""
    kernels = bench_digest.timed(results)
    untimed = bench_digest.untimed(results)
    stacks = bench_digest.stacks(results)
    spans = bench_digest.spans(results)
    longest = max((max(s.whole, s.whole - s.rest) for s in stacks), default=0.0)
    style = (resources.files("harness.report") / "templates" / "style.css").read_text("utf-8")
    rows = [(case, series) for cases in kernels.values() for case in cases for series in case.series]
    context: dict[str, Any] = {
        "results": results,
        "headline": bench_digest.headline(results),
        "good": not results.exit_reason,
        "quantities": bench_digest.quantities(results),
        "emulated": results.target.timing == "emulated",
        "clocks": bench_digest.clocks(results),
        "ceilings": _ceilings(results),
        "caches": bench_digest.caches(results),
        "kernels": [_kernel(results, name, cases) for name, cases in kernels.items()],
        "stacks": [(s, Markup(bench_charts.stack(s, longest))) for s in stacks[:MAX_STACKS]],
        "more_stacks": len(stacks) - len(stacks[:MAX_STACKS]),
        "parts": PARTS,
        "rows": rows[:MAX_ROWS],
        "more_rows": len(rows) - len(rows[:MAX_ROWS]),
        "spans": spans[:MAX_ROWS],
        "more_spans": len(spans) - len(spans[:MAX_ROWS]),
        "open_spans": len(spans) <= MAX_OPEN,
        "untimed": untimed[:MAX_UNTIMED],
        "more_untimed": len(untimed) - len(untimed[:MAX_UNTIMED]),
        "style": Markup(style),
        "facts": _facts(results),
    }
    return _environment().get_template("bench.html.j2").render(context)


def _kernel(results: BenchResults, name: str, cases: list[BenchCase]) -> dict[str, Any]:
    plots = []
    for letter, words in _AXES:
        points = bench_digest.points(cases, letter)
        if points:
            title = f"{name}: median time over {letter}"
            plots.append((letter, words, Markup(bench_charts.scatter(points, letter, title))))
    axis = charts.share_axis(1.0)
    shares = []
    for cache in bench_digest.caches(results):
        values = bench_digest.shares(cases, cache)
        if values:
            title = f"{name}, {cache}: shares of the floor, best {values[-1]:.1%}"
            shares.append((cache, values, Markup(charts.distribution(values, axis, title, limit=1.0))))
    middles = [bench_digest.middle(cases, cache) for cache in bench_digest.caches(results)]
    return {
        "name": name, "cases": cases, "plots": plots, "shares": shares, "middles": middles,
        "axis": Markup(charts.scale(axis)),
    }  # fmt: skip


def _ceilings(results: BenchResults) -> list[tuple[str, str, str]]:
    found = results.ceilings
    rate = "not known" if found.bytes_per_second is None else f"{found.bytes_per_second / 1e12:.2f} TB/s"
    peak = "not known" if found.flops_per_second is None else f"{found.flops_per_second / 1e12:,.0f} TFLOP/s"
    return [("Memory", rate, found.bytes_source), ("Arithmetic", peak, found.flops_source)]


def _facts(results: BenchResults) -> list[tuple[str, str]]:
    target = results.target
    rows = [
        ("Target", f"{target.name}: {target.description}" if target.description else target.name),
        ("Library SHA-256", target.library_sha256 or ""),
        *run_facts(results.run, results.environment),
    ]
    return [(name, value) for name, value in rows if value]


def run_facts(run: RunInfo, environment: Environment) -> list[tuple[str, str]]:
    """What was run, when and where, as names and texts."""
    return [
        ("Fixtures", f"{run.fixtures} (suite {run.suite})"),
        ("Fixture hash", run.fixture_hash[:20]),
        ("Harness", run.harness_version),
        ("Contract", run.contract_version),
        ("Time", run.time),
        ("Duration", f"{run.seconds:,.1f} s"),
        ("Command", run.command),
        *environment.facts.items(),
    ]
