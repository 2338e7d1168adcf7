"""Fault classes of verify_attn."""

from __future__ import annotations

from functools import partial

from harness.mutants.faults.part import fault
from harness.mutants.model import Fault

_fault = partial(fault, "Attention")

ATTENTION: dict[str, Fault] = {
    "unused-kv-shows": _fault(
        "Junk in rows that nobody sees reaches the output: 0 * NaN is NaN, or a hidden weight is tiny, not 0",
        "padded_nodes huge_hidden any_bits sees_nothing stray_bits",
        "flashinfer-ai/flashinfer#941 flashinfer-ai/flashinfer#942 Dao-AILab/flash-attention#1745 "
        "Dao-AILab/flash-attention#1395",
    ),
    "padded-nodes-computed": _fault(
        "Rows past the live nodes are computed, left unwritten or not zero",
        "padded_nodes inactive",
    ),
    "padding-in-total": _fault(
        "Keys past the end join the denominator",
        "zero_query length_edge",
        "flashinfer-ai/flashinfer#3716",
    ),
    "nothing-visible": _fault(
        "A row without a visible key gives NaN, or another lse than -inf",
        "sees_nothing",
        "flashinfer-ai/flashinfer#4452 flashinfer-ai/flashinfer#4484 Dao-AILab/flash-attention#978",
    ),
    "empty-merge": _fault(
        "Merging empty parts: -inf minus -inf is NaN",
        "sees_nothing",
        "flashinfer-ai/flashinfer#4051 flashinfer-ai/flashinfer#5262",
    ),
    "empty-share": _fault(
        "More splits than blocks of keys: an empty split leaves its scratch unwritten, and is merged",
        "zero_prefix length_edge",
        "ROCm/aiter#3641 vllm-project/vllm#47188",
    ),
    "merge-wrong": _fault(
        "Partial results lost, or merged without rescaling",
        "peaked length_edge",
    ),
    "not-repeatable": _fault(
        "Equal calls give unequal bits, or NaN now and then",
        "mla gqa same_twice",
        "ROCm/aiter#4350 pytorch/torchtitan#3235",
    ),
    "workspace-trusted": _fault(
        "What the workspace held before is added to, or taken for an own result",
        "mla gqa",
        "flashinfer-ai/flashinfer#5176",
    ),
    "missing-barrier": _fault(
        "A barrier is missing between a write to shared memory and its readers",
        "mla gqa length_edge best_first word_edge walk nothing_accepted overlapping_moves",
    ),
    "output-stride": _fault(
        "Outputs stepped by one head's width, or written past the end",
        "head_groups mla gqa",
        "flagos-ai/FlagGems#5235",
    ),
    "narrow-offsets": _fault(
        "Page times stride in too few bits: wrong rows in large pools",
        "far_pool high_pages odd_row_bytes length_edge",
        "flashinfer-ai/flashinfer#3136 vllm-project/vllm#47671 sgl-project/sglang#9344 "
        "syv-ai/qwen38-27b-rtx3090#86",
    ),
    "length-edge": _fault(
        "Prefix lengths at 0 and at edges of tiles and pages: a tile or row too few or too many",
        "zero_prefix length_edge ragged_batch",
        "deepseek-ai/FlashMLA#11 pengcuo/FlashMLA-ETAP#2",
    ),
    "pool-place-for-position": _fault(
        "Places in the pool compared with the length: a short prefix in high pages fails",
        "high_pages",
        "Luce-Org/lucebox#652",
    ),
    "wrong-page": _fault(
        "The page of another request, pages in order, or split by a shift or a wrong stride",
        "odd_page ragged_batch length_edge neighbour_pages page_border shared_pages",
    ),
    "lse-wrong": _fault(
        "lse in base 2, without the peak, or not written",
        "mla gqa peaked",
        "vllm-project/vllm#47079 sgl-project/sglang#35045",
    ),
    "head-mapping": _fault(
        "Query heads mapped to KV heads by remainder, or one head's query, key or value for all",
        "head_groups",
    ),
    "row-parts": _fault(
        "The rope part dropped or misplaced, values from the wrong columns, an element too few",
        "mla gqa",
    ),
    "query-row": _fault("The query of another node", "tree_shape length_edge"),
    "wrong-scale": _fault(
        "No scale, a scale twice, or one computed from the width",
        "other_scale mla",
    ),
    "softmax-range": _fault(
        "exp without the peak subtracted: overflow and underflow",
        "large_logits",
    ),
    "rounded-total": _fault(
        "The denominator sums rounded weights",
        "length_edge tree_shape",
    ),
}
