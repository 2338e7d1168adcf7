"""Reports: renderings of ``results.json``, and nothing that is not in it."""

from __future__ import annotations

import os
from pathlib import Path

from harness.report import html, junit, markdown
from harness.results import Results, load_results

__all__ = ["write_reports"]


def write_reports(results: Results, folder: Path) -> tuple[Path, ...]:
    """Write ``results.json``, then ``junit.xml``, ``summary.md`` and ``index.html`` from that very file.

    Every file is written beside its place and renamed, so that a reader never meets half of one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    truth = _replace(folder / "results.json", results.to_json())
    loaded = load_results(truth)
    return (
        truth,
        _replace(folder / "junit.xml", junit.render(loaded)),
        _replace(folder / "summary.md", markdown.render(loaded)),
        _replace(folder / "index.html", html.render(loaded)),
    )


def _replace(path: Path, text: str) -> Path:
    """Write ``text`` to ``path`` by rename; what UTF-8 cannot carry (lone surrogates) becomes ``?``."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(text.encode("utf-8", errors="replace"))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
