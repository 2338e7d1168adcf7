"""Case families, one file each. To add one: write the file, list its family in `FAMILIES`."""

from __future__ import annotations

from harness.cases import (
    accept_batch,
    accept_edges,
    accept_invalid,
    accept_limits,
    accept_none,
    accept_walks,
    commit_moves,
    greedy_synthesized,
    invalid_edges,
    related_batches,
    related_steps,
    tree_batch,
    tree_extremes,
    tree_grid,
    tree_precision,
    tree_short,
    tree_ties,
    tree_values,
)
from harness.cases.attention_batches import BATCHES
from harness.cases.attention_bits import BITS
from harness.cases.attention_large import LARGE
from harness.cases.attention_lengths import LENGTHS
from harness.cases.attention_pairs import PAIRS, SPLITS
from harness.cases.attention_probes import PROBES
from harness.cases.attention_trees import TREE_SHAPES
from harness.cases.attention_values import VALUES
from harness.cases.base import Family
from harness.cases.far_pools import FAR_ATTENTION, FAR_COMMIT
from harness.cases.greedy_sequences import SEQUENCES
from harness.cases.planted import PLANTED
from harness.cases.related_attention import RELATED

TREE_BUILD = (
    tree_grid.GRID,
    tree_grid.WORD_EDGE,
    tree_ties.BF16_TIES,
    tree_ties.ALL_EQUAL,
    tree_precision.OFF_GRID,
    tree_precision.ROUNDING,
    tree_precision.DIFFERENCE,
    tree_precision.TINY,
    tree_extremes.EXTREMES,
    tree_short.NO_CANDIDATE,
    tree_short.SHAPES,
    tree_values.TOKENS,
    tree_values.PREFIX,
    tree_batch.RAGGED,
    tree_batch.INACTIVE,
    tree_batch.INVALID,
    invalid_edges.BAD_ROWS,
    related_batches.BUILD,
)
ATTENTION = (
    LENGTHS,
    TREE_SHAPES,
    BATCHES,
    BITS,
    VALUES,
    LARGE,
    PAIRS,
    SPLITS,
    PROBES,
    FAR_ATTENTION,
    RELATED,
)
TREE_ACCEPT = (
    accept_walks.WALKS,
    accept_walks.CHOSEN,
    accept_walks.DEEPER,
    accept_limits.STOP,
    accept_limits.LIMIT,
    accept_edges.EDGES,
    accept_none.NONE,
    accept_batch.RAGGED,
    accept_batch.PADDING,
    accept_batch.INACTIVE,
    accept_invalid.INVALID,
    invalid_edges.BAD_LINKS,
    related_batches.ACCEPT,
)
KV_COMMIT = (
    commit_moves.PATHS,
    commit_moves.ROWS,
    commit_moves.BATCH,
    commit_moves.DEEP,
    FAR_COMMIT,
    related_batches.COMMIT,
)
GREEDY_STEP = (greedy_synthesized.SYNTHESIZED, SEQUENCES, related_steps.RELATED, PLANTED)

FAMILIES: tuple[Family, ...] = (*TREE_BUILD, *ATTENTION, *TREE_ACCEPT, *KV_COMMIT, *GREEDY_STEP)
