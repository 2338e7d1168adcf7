"""Inputs of consecutive steps of greedy_step, for its tests."""

from __future__ import annotations

import numpy as np
from ref_oracles import (
    distinct_tokens,
    make_rows,
)

from references import (
    float_to_bf16,
    greedy_step,
    next_state,
    tree_build,
)

NO_LIMIT = 2**31 - 1
BUILD_INPUTS = ("topk_logprob", "topk_token", "root_token", "prefix_len")
STATE = ("bonus_token", "out_token", "finished", "new_len")


def i32(*values):
    return np.array(values, np.int32)


def synthesized(seed, *, mla, steps=4, batch=4, depths=3, width=4, budget=7):
    """Inputs of consecutive steps, each state derived from the outputs of the steps before."""
    rng = np.random.default_rng(seed)
    nodes, slots, layers, dk, dv, kv_heads = budget + 1, 3, 2, 6, 4, 1 if mla else 2
    row, pages = (dk if mla else kv_heads * (dk + dv)), 14
    pool = rng.permutation(batch * pages + 1).astype(np.int32)
    common = {
        "stop_token": i32(2),
        "block_table": pool[: batch * pages].reshape(batch, pages).copy(),
        "kv": float_to_bf16(rng.standard_normal((layers, len(pool), slots, row))),
        "budget": budget, "depth_limit": depths, "Hkv": kv_heads, "Dv": dv, "scale": 0.3, "layer": 1,
    }  # fmt: skip
    state = {
        "root_token": i32(5, -1, 6, 7)[:batch],
        "prefix_len": i32(4, 3, 0, 11)[:batch],
        "token_limit": i32(NO_LIMIT, 4, 9, 2)[:batch],
    }
    common["block_table"][state["root_token"] == -1] = -3
    per_step = []
    kv = common["kv"]
    for _ in range(steps):
        inputs = {
            "topk_logprob": make_rows(rng, (batch, depths, width), "ties"),
            "topk_token": distinct_tokens(rng, (batch, depths, width)) % 9,
            **state,
            "q": float_to_bf16(rng.standard_normal((batch, nodes, 4, dk))),
            "tail": float_to_bf16(rng.standard_normal((layers, batch, nodes, row))),
            "target_predict": rng.integers(-1, 9, (batch, nodes)).astype(np.int32),
        }
        inputs["topk_logprob"][3, 1, 0] = np.nan if len(per_step) == 0 else inputs["topk_logprob"][3, 1, 0]
        tree = tree_build(**{k: inputs[k] for k in BUILD_INPUTS}, budget=budget)
        child = np.take_along_axis(tree["node_token"], np.maximum(tree["next_token"], 0), axis=1)
        follow = (tree["next_token"] != -1) & (rng.random((batch, nodes)) < 0.7)
        inputs["target_predict"] = np.where(follow, child, inputs["target_predict"])
        per_step.append(inputs)
        one = greedy_step(**{k: v[None] for k, v in inputs.items()}, **(common | {"kv": kv}))
        kv = one["kv"]
        state = next_state(**{k: one[k][0] for k in STATE}, token_limit=state["token_limit"])
    stacked = {k: np.stack([s[k] for s in per_step]) for k in per_step[0]}
    return {**stacked, **common}
