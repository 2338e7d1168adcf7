"""Other inputs of the same shapes, for a call before the one that counts.

A library is called with them on the same buffers and the same workspace, so that what it keeps from call to
call, or takes from the last one, is wrong for the call that follows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.case import AnyArray
from harness.contract import Kernel

Arrays = Mapping[str, AnyArray]


def decoy(kernel: Kernel, inputs: Arrays) -> dict[str, AnyArray]:
    """Inputs of ``kernel`` as good as ``inputs``: the requests change places, or a lone one is another.

    Every precondition that ``inputs`` keep is kept, but that more rows of a pool may be visible than before.
    """
    per_request = [a.name for a in kernel.arrays if a.name in inputs and a.dims[0] == "B"]
    if len(inputs[per_request[0]]) > 1:
        moved = {n: np.concatenate((inputs[n][-1:], inputs[n][:-1])) for n in per_request}
        return {**inputs, **moved}
    return {**inputs, **_LONE[kernel.name](inputs)}


def _tree_build(inputs: Arrays) -> dict[str, AnyArray]:
    """All candidates equal: a full tree of another shape."""
    return {
        "topk_logprob": np.zeros_like(inputs["topk_logprob"]),
        "topk_token": inputs["topk_token"] ^ np.int32(1),
        "root_token": np.abs(inputs["root_token"] ^ np.int32(1)),
        "prefix_len": inputs["prefix_len"] // 2,
    }


def _verify_attn(inputs: Arrays) -> dict[str, AnyArray]:
    """Half the prefix and half the nodes; the slots are mapped in any case."""
    count = inputs["node_count"]
    return {
        "prefix_len": inputs["prefix_len"] // 2,
        "node_count": np.where(count > 1, count // 2, count).astype(np.int32),
    }


def _tree_accept(inputs: Arrays) -> dict[str, AnyArray]:
    """The target predicts at each node what it did at the one before."""
    return {"target_predict": np.roll(inputs["target_predict"], 1, axis=1)}


def _kv_commit(inputs: Arrays) -> dict[str, AnyArray]:
    """Half the path."""
    return {"accept_len": inputs["accept_len"] // 2}  # -1 stays -1


_LONE = {
    "tree_build": _tree_build,
    "verify_attn": _verify_attn,
    "tree_accept": _tree_accept,
    "kv_commit": _kv_commit,
}
