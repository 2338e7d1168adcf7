"""Fault classes of kv_commit, greedy_step and captured graphs."""

from __future__ import annotations

from functools import partial

from harness.mutants.faults.part import fault
from harness.mutants.model import Fault

_fault = partial(fault, "Committing, stepping, graphs")

STEPPING: dict[str, Fault] = {
    "path-as-dense": _fault(
        "A path off the first branch is committed as if it were contiguous",
        "off_first_branch overlapping_moves",
        "warpfront/hipfire#534 warpfront/hipfire#41",
    ),
    "move-order": _fault(
        "Moves in place in an order in which a source is overwritten before it is read",
        "overlapping_moves",
        "warpfront/hipfire#534",
    ),
    "wrong-moves": _fault(
        "Moves to or from one slot off, one move too few, or with the root",
        "commit off_first_branch overlapping_moves long_moves",
    ),
    "neighbours-moved": _fault(
        "Bytes beside the rows change: wide copies, whole pages, sources cleared, tables of other grain",
        "partial_page page_border odd_row_bytes neighbour_pages commit overlapping_moves",
        "sgl-project/sglang#31218 sgl-project/sglang#31215 sgl-project/sglang#31060",
    ),
    "layers-missed": _fault("Only some layers are committed", "commit many_layers other_layer"),
    "committed-length": _fault(
        "new_len without the root, with the bonus, or unwritten", "commit ragged_batch inactive"
    ),
    "rollback": _fault(
        "Rows and lengths after a step are not those of plain decoding of the same tokens",
        "several_steps changing_accepts planted greedy",
        "NVIDIA/TensorRT-LLM#10343 vllm-project/vllm#9730 sgl-project/sglang#34189 Luce-Org/lucebox#415",
    ),
    "steps-out-of-order": _fault(
        "The kernels and the model's work run in another order, or one of them not at all",
        "greedy planted several_steps",
    ),
    "stale-plan": _fault(
        "Blocks of a captured grid read plan entries that this call did not write",
        "changing_live several_steps inactive",
        "flashinfer-ai/flashinfer#5176",
    ),
    "padded-request-acts": _fault(
        "A request that is not there is built, attended, accepted or committed",
        "inactive finishes",
        "vllm-project/vllm#43682 vllm-project/vllm#56734 vllm-project/vllm#37815",
    ),
    "value-baked": _fault(
        "A count, length, link or mask is fixed when the graph is captured",
        "changing_accepts several_steps changing_sizes one_change changing_live",
        "vllm-project/vllm#41162 Luce-Org/lucebox#482 spiritbuun/buun-llama-cpp#116",
    ),
    "stream-ignored": _fault(
        "Work runs on another stream than the given one: a capture misses it",
        "several_steps greedy planted best_first mla gqa walk commit",
        "thu-ml/SageAttention#371",
    ),
    "no-capture": _fault(
        "A call waits for the device, so that it cannot be captured", "several_steps greedy"
    ),
    "dependent-launch": _fault(
        "A dependent launch reads before it waits for its producer",
        "several_steps greedy mla gqa",
        "lightseekorg/tokenspeed#327 Dao-AILab/quack#206",
    ),
}
