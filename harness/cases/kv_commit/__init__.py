"""The families of kv_commit, one idea a file. To add one: write the file, list its family here."""

from __future__ import annotations

from harness.cases.base import Family
from harness.cases.kv_commit import far_pages, moves, related

FAMILIES: tuple[Family, ...] = (
    moves.PATHS,
    moves.ROWS,
    moves.BATCH,
    moves.DEEP,
    far_pages.FAR_PAGES,
    related.RELATED,
)
