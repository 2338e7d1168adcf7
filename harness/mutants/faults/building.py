"""Fault classes of tree_build, and of the top-k in front of it."""

from __future__ import annotations

from functools import partial

from harness.mutants.faults.part import fault
from harness.mutants.model import Fault

_fault = partial(fault, "Building the tree")

BUILDING: dict[str, Fault] = {
    "tie-order": _fault(
        "Equal scores in another order than by rank tuple",
        "ties all_equal",
        "pytorch/pytorch#27542 pytorch/pytorch#127196 pytorch/pytorch#85227",
    ),
    "tie-overflow": _fault(
        "A fixed buffer for ties overflows: slots unset, junk or nodes twice",
        "all_equal",
        "sgl-project/sglang#30512 sgl-project/sglang#30645 NVIDIA/TensorRT-LLM#15756",
    ),
    "score-rounding": _fault(
        "Scores in less than float64, or summed in another way than from the root",
        "float32_sums sums_round running_difference off_grid every_magnitude",
    ),
    "probability-product": _fault(
        "Path scores as products of probabilities: they underflow",
        "probability_product",
        "sgl-project/sglang#12637",
    ),
    "candidate-limit": _fault(
        "Candidates past a limit of rank, or the last one, are never considered",
        "rank_cap many_candidates star best_first",
    ),
    "radix-buffer": _fault(
        "A radix top-k over the vocabulary drops candidates past its buffer",
        links="sgl-project/sglang#36807 sgl-project/sglang#37893",
        outside="tree_build starts from sorted candidates; a top-k over a vocabulary is no kernel of it",
    ),
    "padded-vocabulary-id": _fault(
        "A fused top-1 returns an id outside the vocabulary when padding beats NaN",
        "nan bad_rows",
        "sgl-project/sglang#32396 vllm-project/vllm#21876 vllm-project/vllm#50183",
    ),
    "nan-by-bits": _fault(
        "NaN, infinities and zeros ordered by raw bits instead of value, or let in",
        "nan bad_rows all_equal",
        "pytorch/pytorch#117617 pytorch/pytorch#16762 pytorch/pytorch#1810",
    ),
    "bad-rows-unchecked": _fault(
        "Positive, rising or gapped rows build a tree of junk, or spoil good neighbours",
        "bad_rows unsorted unreached neighbours_good",
    ),
    "too-few-candidates": _fault(
        "Fewer usable candidates than slots: -inf becomes a node, unused slots hold anything",
        "no_candidate short_tree",
        "flashinfer-ai/flashinfer#5187 flashinfer-ai/flashinfer#4169 flashinfer-ai/flashinfer#4123",
    ),
    "root-only-tree": _fault(
        "Empty and root-only trees are unsupported or run out of range",
        "root_only empty no_candidate",
        "vllm-project/vllm#22752 Luce-Org/lucebox#642 vllm-project/vllm#42910",
    ),
    "tree-size": _fault(
        "One node or one level too many or too few, or a count without the root",
        "best_first deepest star chain root_only",
    ),
    "collapsed-tree": _fault(
        "A tree that has become a chain, still called lossless",
        "best_first star",
        "sgl-project/sglang-jax#1611",
    ),
    "chain-differs": _fault(
        "A tree of width 1 is not the plain chain",
        "chain metamorphic",
        "NVIDIA/TensorRT-LLM#15842",
    ),
    "one-level-tree": _fault(
        "A tree of one level raises, or is treated as if there were a second",
        "star",
        "NVIDIA/TensorRT-LLM#10323",
    ),
    "rank-for-token": _fault(
        "The place in a candidate list or shard is taken for the token, or tokens for nodes",
        "sparse_tokens repeated_tokens",
        "sgl-project/sglang#29907",
    ),
    "wrong-links": _fault(
        "First-child or sibling links reversed, missing, or to another node",
        "best_first star ties",
    ),
    "parent-outside-request": _fault(
        "The search for a parent leaves its request, or has no bound",
        "ragged_batch neighbours_good",
        "sgl-project/sglang#36201 sgl-project/sglang#7477",
    ),
    "other-requests-rows": _fault(
        "Candidates, tokens or lengths of another request of the batch",
        "ragged_batch neighbours_good",
    ),
}
