"""Fault classes of masks and positions: outputs of tree_build, inputs of verify_attn."""

from __future__ import annotations

from functools import partial

from harness.mutants.faults.part import fault
from harness.mutants.model import Fault

_fault = partial(fault, "Masks and positions")

MASKS: dict[str, Fault] = {
    "one-mask-word": _fault(
        "One 32-bit word a row, or spare bits set: ancestors past bit 31 are lost",
        "word_edge many_words",
        "NVIDIA/TensorRT-LLM#12962 NVIDIA/TensorRT-LLM#8586",
    ),
    "mask-pitch": _fault(
        "Rows of the mask by the live width where the other side uses the allocated one",
        "short_tree padded_nodes no_candidate ragged_batch",
        "NVIDIA/TensorRT-LLM#13006 NVIDIA/TensorRT-LLM#13426",
    ),
    "mask-offset": _fault(
        "Offsets of packed masks right for the first request alone",
        "ragged_batch",
        "flashinfer-ai/flashinfer#2201",
    ),
    "mask-of-other-request": _fault(
        "Mask bits read from, or written to, another request's rows",
        "ragged_batch",
        "sgl-project/sgl-kernel-npu#146",
    ),
    "mask-size": _fault(
        "A mask of the wrong size is accepted without a check",
        links="flashinfer-ai/flashinfer#3176 flashinfer-ai/flashinfer#5271",
        outside="the number of slots fixes the size of the mask; the call has no size that could disagree",
    ),
    "mask-kept": _fault(
        "The mask, or whether there is one, survives from an earlier call",
        "several_steps changing_sizes same_again",
        "flashinfer-ai/flashinfer#1028 flashinfer-ai/flashinfer#2690",
    ),
    "mask-room": _fault(
        "No room for the draft columns at the longest context",
        "huge_prefix word_edge many_words",
        "sgl-project/sglang#29450",
    ),
    "batch-shrinks": _fault(
        "After the batch shrinks, what the larger one left is passed on",
        "changing_sizes changing_live finishes",
        "sgl-project/sglang#37553 sgl-project/sglang#37120",
    ),
    "batch-padded": _fault(
        "A live batch smaller than the captured one: padded requests keep old values",
        "inactive changing_live finishes",
        "sgl-project/sglang#6309 sgl-project/sglang#9687 sgl-project/sglang#10892",
    ),
    "wrong-ancestors": _fault(
        "A mask that is causal, full, transposed, shifted, stale or without the node itself",
        "best_first tree_shape any_bits self_hidden word_edge stray_bits",
        "sgl-project/sglang#29587",
    ),
    "mask-skipped": _fault(
        "Tiles wholly below the diagonal skip the mask: siblings see each other",
        "many_words tree_shape",
        "PaddlePaddle/FastDeploy#3514",
    ),
    "loop-ends-early": _fault(
        "The loop over keys ends at the causal end although the mask allows more",
        "later_ancestor last_key_only",
        "sgl-project/sglang#39703",
    ),
    "position-from-slot": _fault(
        "Positions by place in the flattened tree, without the prefix, or in too small a type",
        "best_first huge_prefix zero_prefix planted",
        "lablup/mlxcel#1214 NVIDIA/TensorRT-LLM#13081",
    ),
    "depth-from-order": _fault(
        "Depths or parents follow the order of the list instead of the tree",
        "best_first",
        "NVIDIA/TensorRT-LLM#12962",
    ),
}
