"""Paths as results show them: relative to the folder of the run, so that no host or user name gets in."""

from __future__ import annotations

import os
from pathlib import Path

from harness.targets import is_library_path


def relative(path: Path) -> str:
    """``path`` as seen from the current folder."""
    return os.path.relpath(path)


def relative_target(target: str) -> str:
    """A target's name, with a library's path relative and still recognisable as a path."""
    if not is_library_path(target):
        return target
    path = relative(Path(target))
    return path if is_library_path(path) else f"./{path}"


def report_name(target: str, suite: str) -> str:
    """A folder name for the reports of a target on a suite."""
    stem = Path(target).name.split(".so")[0] if is_library_path(target) else target
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in f"{stem}-{suite}")
    return safe.strip("-")
