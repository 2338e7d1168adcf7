"""The families of tree_accept, one idea a file. To add one: write the file, list its family here."""

from __future__ import annotations

from harness.cases.base import Family
from harness.cases.tree_accept import batch, edges, invalid, invalid_edges, limits, none, related, walks

FAMILIES: tuple[Family, ...] = (
    walks.WALKS,
    walks.CHOSEN,
    walks.DEEPER,
    limits.STOP,
    limits.LIMIT,
    edges.EDGES,
    none.NONE,
    batch.RAGGED,
    batch.PADDING,
    batch.INACTIVE,
    invalid.INVALID,
    invalid_edges.BAD_LINKS,
    related.RELATED,
)
