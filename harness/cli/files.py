"""Report files of a verb; the truth alone where the template library is not installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_files(folder: Path, name: str, truth: str, write: Callable[[], tuple[Path, ...]]) -> Path:
    """Call ``write``, which imports and uses the renderers; the last path it wrote.

    Where an import fails, ``truth`` alone is written to ``folder / name``, by rename.
    """
    try:
        return write()[-1]
    except ImportError:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        beside = folder / f".{name}.{os.getpid()}"
        beside.write_text(truth, encoding="utf-8")
        beside.replace(path)
        return path
