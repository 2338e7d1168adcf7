"""Files that a reader never meets half written."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> Path:
    """Write ``text`` beside ``path`` and rename; folders are made. OSError where the disk refuses.

    What UTF-8 cannot carry (lone surrogates) becomes ``?``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(text.encode("utf-8", errors="replace"))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
