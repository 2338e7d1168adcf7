"""The files of a bench: renderings of ``bench.json``, and nothing that is not in it."""

from __future__ import annotations

from pathlib import Path

from harness.bench_results import BenchResults, load_bench
from harness.report import bench_html, bench_markdown
from harness.writing import write_whole

__all__ = ["write_bench"]


def write_bench(results: BenchResults, folder: Path) -> tuple[Path, ...]:
    """Write ``bench.json``, then ``summary.md`` and ``timing.html`` from that very file."""
    truth = write_whole(folder / "bench.json", results.to_json())
    loaded = load_bench(truth)
    return (
        truth,
        write_whole(folder / "summary.md", bench_markdown.render(loaded)),
        write_whole(folder / "timing.html", bench_html.render(loaded)),
    )
