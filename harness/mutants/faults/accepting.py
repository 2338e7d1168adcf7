"""Fault classes of tree_accept, and of the argmax in front of it."""

from __future__ import annotations

from functools import partial

from harness.mutants.faults.part import fault
from harness.mutants.model import Fault

_fault = partial(fault, "Accepting a path")

ACCEPTING: dict[str, Fault] = {
    "argmax-order": _fault(
        "Ties and NaN of an argmax depend on the order of reduction",
        links="triton-lang/triton#1813 triton-lang/triton#10094 triton-lang/triton#10291 "
        "triton-lang/triton#10697 ohdearquant/lattice#280",
        outside="the target's argmax is an input; the planted head, lowest row first, is not under test",
    ),
    "matches-counted": _fault(
        "All matches are counted instead of the unbroken path",
        "later_match not_a_child nothing_accepted",
        "vllm-project/vllm#2658 vllm-project/vllm#10604",
    ),
    "wrong-child": _fault(
        "The first child alone, the last match, a node that is no child, or no deepest node",
        "late_sibling duplicate_siblings not_a_child walk all_accepted",
    ),
    "wrong-count": _fault(
        "accept_len or out_token with the root or the bonus counted wrongly", "walk nothing_accepted"
    ),
    "bonus-node": _fault(
        "The bonus from the root, the parent, a child, or the node numbered as the length",
        "late_sibling off_first_branch all_accepted walk",
        "trymirai/lalamo#209",
    ),
    "accept-pitch": _fault(
        "Accept rows stepped by N instead of depth_limit + 1, or taken as a dense prefix",
        "ragged_batch off_first_branch",
        "sgl-project/sglang#26866 sgl-project/sglang#15360",
    ),
    "accept-tail": _fault("Entries past the path unwritten or not -1", "walk nothing_accepted"),
    "none-as-token": _fault(
        "-1 matches -1, is emitted, ends a request, or is used as an address",
        "no_prediction",
        "vllm-project/vllm#50939 vllm-project/vllm-ascend#8531 vllm-project/vllm-ascend#16222",
    ),
    "padding-walked": _fault(
        "Slots past the live nodes are walked to",
        "hostile_padding",
        "vllm-project/vllm#50939",
    ),
    "vocabulary-offset": _fault(
        "Row times vocabulary in 32 bits: late requests are decided wrongly",
        links="vllm-project/vllm#46560 vllm-project/vllm#47383 vllm-project/vllm#48055",
        outside="no array of the contract is as wide as a vocabulary",
    ),
    "links-unchecked": _fault(
        "Links out of range, backwards, to oneself, in a ring or twice are followed",
        "bad_links unwalked_links",
        "sgl-project/sglang#35822 elizaOS/eliza#22392",
    ),
    "count-unchecked": _fault("node_count below 0 or above N is used", "bad_count"),
    "status-spreads": _fault(
        "A malformed request spoils its neighbours, is walked, or is not reported",
        "neighbours_good bad_links",
        "flashinfer-ai/flashinfer#2402",
    ),
    "near-ties": _fault(
        "Logits equal in bf16 are decided differently in a batch and one by one",
        links="ml-explore/mlx-lm#1470 FasterDecoding/Medusa#99 RBLN-SW/vllm-rbln#630",
        outside="not a fault of a kernel; planted cases store the margin of every decision",
    ),
    "depth-limit": _fault("depth_limit ignored, or one level short", "deeper_than_limit"),
    "stop-late": _fault(
        "Stop tokens ignored, dropped, or looked for only after the run or at its end",
        "stop_token stop_and_limit",
        "sgl-project/sglang#33758 sgl-project/sglang#2723 ggml-org/llama.cpp#28049 unslothai/llama.cpp#224",
    ),
    "limit-late": _fault(
        "token_limit ignored, off by one, without the bonus, or another request's",
        "token_limit stop_and_limit",
        "huggingface/transformers#47912",
    ),
    "finished-flag": _fault("A request ends without its flag", "stop_token token_limit"),
}
