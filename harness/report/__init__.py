"""Reports: renderings of ``results.json``, and nothing that is not in it."""

from __future__ import annotations

from pathlib import Path

from harness.report import html, junit, markdown
from harness.results import Results, load_results
from harness.writing import write_whole

__all__ = ["write_reports"]


def write_reports(results: Results, folder: Path) -> tuple[Path, ...]:
    """Write ``results.json``, then ``junit.xml``, ``summary.md`` and ``index.html`` from that very file.

    Every file is written beside its place and renamed, so that a reader never meets half of one.
    """
    truth = write_whole(folder / "results.json", results.to_json())
    loaded = load_results(truth)
    return (
        truth,
        write_whole(folder / "junit.xml", junit.render(loaded)),
        write_whole(folder / "summary.md", markdown.render(loaded)),
        write_whole(folder / "index.html", html.render(loaded)),
    )
