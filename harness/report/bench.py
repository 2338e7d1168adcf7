"""The files of a bench: renderings of ``bench.json``, and nothing that is not in it."""

from __future__ import annotations

from pathlib import Path

from harness.bench_results import BenchResults, load_bench
from harness.report import _replace, bench_html, bench_markdown

__all__ = ["write_bench"]


def write_bench(results: BenchResults, folder: Path) -> tuple[Path, ...]:
    """Write ``bench.json``, then ``summary.md`` and ``timing.html`` from that very file."""
    folder.mkdir(parents=True, exist_ok=True)
    truth = _replace(folder / "bench.json", results.to_json())
    loaded = load_bench(truth)
    return (
        truth,
        _replace(folder / "summary.md", bench_markdown.render(loaded)),
        _replace(folder / "timing.html", bench_html.render(loaded)),
    )
