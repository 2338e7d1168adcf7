"""What bench_trees.py times: rows of log-probs, trees, paths to commit, one whole step. NumPy only."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tree_calls import TAIL_PAGES

from harness.case import AnyArray, small_integer_bf16
from harness.cases.blocks.shapes import path_to, steer
from harness.cases.blocks.topk import bf16_rows, build_inputs, grid_rows, off_grid_rows
from harness.cases.greedy_step.synthesized import MLA_SCALE
from harness.contract import NO_LIMIT
from harness.draw import Draw
from references import tree_build

I32 = np.int32
KINDS = ("even", "decisive", "flat", "mixed", "peaked", "off_grid", "softmax", "bf16", "equal", "zero")
DEPTH = 15
VOCABULARY = 32_768  # of the softmax rows
BANK = 600  # softmax rows that are made; inputs draw from them
ROW_BYTES = 1152  # one bf16 row of 512 + 64 columns
PAGE_SLOTS = 64
PREFIX = 20  # slots before the tail in its first page: 65 slots take TAIL_PAGES


def rows_of(kind: str, seed: int, shape: tuple[int, int, int]) -> AnyArray:
    """Log-probs float32 [B,L,K] of one of the KINDS."""
    draw = Draw(seed)
    if kind == "off_grid":
        return off_grid_rows(draw, shape)
    if kind == "bf16":
        return bf16_rows(draw, shape)
    if kind == "softmax":
        return _bank()[draw.below(BANK, shape[:2])][..., : shape[2]]
    if kind in ("equal", "zero"):
        return np.full(shape, -1 if kind == "equal" else 0, np.float32)
    return grid_rows(draw, shape, kind)


@cache
def _bank() -> AnyArray:
    """The 1,024 largest of log-softmax(4 x normal), float32 [BANK,1024]: off the grid, as from a model."""
    logits = 4 * np.random.default_rng(0).standard_normal((BANK, VOCABULARY), np.float32)
    total = np.log(np.exp(logits.astype(np.float64)).sum(axis=-1, keepdims=True))
    best = -np.sort(np.partition(-logits, 1024, axis=-1)[:, :1024], axis=-1)
    return np.minimum(best - total, 0).astype(np.float32)


def tree_inputs(kind: str, seed: int, batch: int, width: int) -> dict[str, AnyArray]:
    """Inputs of tree_build, L 15."""
    return dict(build_inputs(Draw(1000 + seed), rows_of(kind, seed, (batch, DEPTH, width))))


def last_sibling_tree(batch: int, nodes: int, seed: int, steps: int = DEPTH) -> dict[str, AnyArray]:
    """Inputs of tree_accept: every accepted node is the last of its siblings, who share out the nodes."""
    generator = np.random.default_rng(seed)
    child, sibling = np.full((2, nodes), -1, I32)
    token = generator.permutation(100_000)[:nodes].astype(I32)
    predict = generator.permutation(100_000)[:nodes].astype(I32)
    ends = [1 + round((nodes - 1) * (i + 1) / steps) for i in range(steps)]
    parent, begin = 0, 1
    for end in ends:
        child[parent] = begin
        sibling[begin : end - 1] = np.arange(begin + 1, end)
        predict[parent] = token[end - 1]
        parent, begin = end - 1, end
    predict[parent] = 123_456
    one = {"node_token": token, "next_token": child, "next_sibling": sibling, "target_predict": predict}
    return {n: np.tile(v, (batch, 1)) for n, v in one.items()} | {
        "node_count": np.full(batch, nodes, I32),
        "stop_token": np.zeros(0, I32),
        "token_limit": np.full(batch, NO_LIMIT, I32),
    }


def commit_inputs(number: int, requests: int) -> dict[str, AnyArray]:
    """Inputs of kv_commit but for the pool: 16 rows move, every fourth of 65 slots.

    One long block table serves all ``requests``; each has its tail in two pages of its own.
    """
    return {
        "block_table": np.arange(TAIL_PAGES * requests, dtype=I32)[None],
        "prefix_len": np.array([number * TAIL_PAGES * PAGE_SLOTS + PREFIX], I32),
        "accept_index": np.arange(0, 65, 4, dtype=I32)[None],
        "accept_len": np.array([16], I32),
    }


def deepest_path(tree: dict[str, AnyArray], seed: int) -> AnyArray:
    """target_predict int32 [1,N] that leads to the deepest node of request 0."""
    predict = np.full(tree["node_token"].shape, 5, np.int64)
    parents = tree["node_parent"][0].astype(np.int64)
    node = int(np.argmax(tree["node_depth"][0]))
    steer(predict[0], tree["node_token"][0].astype(np.int64), path_to(parents, node), 200_000 + seed)
    return predict.astype(I32)


def step_inputs(layers: int, prefix: int, heads: int, budget: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and scalars of one greedy step of one request on mla rows; the targets take the deepest path."""
    draw, nodes = Draw(5), budget + 1
    inputs = tree_inputs("decisive", 5, 1, budget) | {"prefix_len": np.array([prefix], I32)}
    tree = tree_build(**inputs, budget=budget)
    pages = -(-(prefix + nodes) // PAGE_SLOTS)
    width = ROW_BYTES // 2
    pool = small_integer_bf16(draw.below(256, (1, pages, PAGE_SLOTS, width)) - 128, 7)
    tail = small_integer_bf16(draw.below(256, (1, layers, 1, nodes, width)) - 128, 7)
    stepped = {name: value[None] for name, value in inputs.items()}
    stepped |= {
        "token_limit": np.full((1, 1), NO_LIMIT, I32),
        "q": small_integer_bf16(draw.below(256, (1, 1, nodes, heads, width)) - 128, 7),
        "tail": tail,
        "target_predict": deepest_path(tree, 5)[None],
    }
    shared = {
        "stop_token": np.zeros(0, I32),
        "block_table": draw.permutation(pages).astype(I32)[None],
        "kv": np.repeat(pool, layers, axis=0),
    }
    scalars = {"budget": budget, "depth_limit": DEPTH, "Hkv": 1, "Dv": 512, "scale": MLA_SCALE, "layer": 0}
    return stepped | shared, scalars
