"""The families of verify_attn, one idea a file. To add one: write the file, list its family here."""

from __future__ import annotations

from harness.cases.base import Family
from harness.cases.verify_attn import (
    batches,
    bits,
    far_pages,
    large,
    lengths,
    pairs,
    probes,
    related,
    trees,
    values,
)

FAMILIES: tuple[Family, ...] = (
    lengths.LENGTHS,
    trees.TREE_SHAPES,
    batches.BATCHES,
    bits.BITS,
    values.VALUES,
    large.LARGE,
    pairs.PAIRS,
    pairs.SPLITS,
    probes.PROBES,
    far_pages.FAR_PAGES,
    related.RELATED,
)
