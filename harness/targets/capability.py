"""What a case asks of a target, against what the target declares."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.case import AnyArray
from harness.contract import NO_LIMIT
from harness.observation import Job
from harness.shapes import Dims

# Dimensions of a kernel that a target may limit, as ``max_<letter>``.
_LIMITED: dict[str, tuple[str, ...]] = {
    "tree_build": ("B", "L", "K", "N"),
    "verify_attn": ("B", "N", "S", "Hq"),
    "tree_accept": ("B", "L", "N", "T"),
    "kv_commit": ("B", "L", "S", "Y"),
    "greedy_step": ("B", "L", "K", "N", "S", "Hq", "T", "Y"),
}


def needed(job: Job, dims: Dims) -> tuple[str, ...]:
    """Capabilities without which the case cannot run.

    A target's own greedy_step is not among them: the harness composes the step where it is missing.
    """
    attention = "ATTN_MLA" if dims.get("R") == dims.get("Dk") else "ATTN_GQA"
    names: tuple[str, ...] = {
        "tree_build": ("TREE_BUILD",),
        "verify_attn": (attention,),
        "tree_accept": ("TREE_ACCEPT",),
        "kv_commit": ("KV_COMMIT",),
        "greedy_step": ("TREE_BUILD", attention, "TREE_ACCEPT", "KV_COMMIT"),
    }[job.kernel]
    limit = job.inputs.get("token_limit")
    limited = isinstance(limit, np.ndarray) and bool((limit != NO_LIMIT).any())
    return (*names, "STOP_AND_LIMIT") if dims.get("T", 0) or limited else names


def over_limit(kernel: str, dims: Dims, limits: Mapping[str, int]) -> str:
    """The first declared limit that the case exceeds, in words; empty where none is."""
    sizes = {**dims, "L": dims["A"] - 1} if "L" not in dims and "A" in dims else dims
    for letter in _LIMITED[kernel]:
        if sizes[letter] > limits[f"max_{letter}"]:
            return f"max_{letter} {limits[f'max_{letter}']} is below the case's {letter} {sizes[letter]}"
    return ""


def plan_hints(inputs: Mapping[str, AnyArray], dims: Dims) -> dict[str, int]:
    """Members of ``ddtree_hints``: upper bounds that a host would know."""
    prefix = inputs.get("prefix_len")
    longest = max([0, *prefix.ravel().tolist()]) if prefix is not None else 0
    nodes = dims.get("N", dims.get("A", 1))
    return {"live_batch": dims["B"], "max_prefix": longest, "max_nodes": nodes, "reserved": 0}
