"""The families of greedy_step, one idea a file. To add one: write the file, list its family here."""

from __future__ import annotations

from harness.cases.base import Family
from harness.cases.greedy_step import planted, related, sequences, synthesized

FAMILIES: tuple[Family, ...] = (
    synthesized.SYNTHESIZED,
    sequences.SEQUENCES,
    related.RELATED,
    planted.PLANTED,
)
