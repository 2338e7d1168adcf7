"""Planted mode: a stand-in for the model around verify_attn, so that a step needs no weights.

``planted_embed`` writes queries and KV rows from (token, position) by an integer hash;
``planted_head`` turns attention outputs into predictions by the nearest centroid. Neither is under test.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._checks import Array, Dims, Outputs, pool_rows, whole
from .bf16 import bf16_to_float64, float_to_bf16

QUERY_SALT = 0x51000000  # plus the query head
ROW_SALT = 0x52000000  # plus the layer


def mix(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The 32-bit finaliser of the hash, element by element."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def planted_values(
    token: NDArray[np.int32], position: NDArray[np.int32], salt: int, width: int
) -> NDArray[np.uint16]:
    """bf16 bits [n,width] of the vectors of ``token`` and ``position`` int32 [n].

    Multiples of 1/128 in [-1, 1), exact in bf16:
    value(e) = ((mix(mix(mix(token ^ salt) + position * 0x85EBCA6B) + e * 0xC2B2AE35) >> 24) - 128) / 128.
    """
    seed = mix(token.astype(np.uint32) ^ np.array([salt], np.uint32))
    seed = mix(seed + position.astype(np.uint32) * np.uint32(0x85EBCA6B))
    steps = np.arange(width, dtype=np.uint32) * np.uint32(0xC2B2AE35)
    level = (mix(seed[:, None] + steps) >> np.uint32(24)).astype(np.float32)
    return float_to_bf16((level - np.float32(128)) / np.float32(128))


def planted_embed(
    *,
    node_token: NDArray[np.int32],
    position: NDArray[np.int32],
    node_count: NDArray[np.int32],
    prefix_len: NDArray[np.int32],
    block_table: NDArray[np.int32],
    kv: NDArray[np.uint16],
    Hq: int,
    Dk: int,
) -> Outputs:
    """Queries and KV rows of the live nodes.

    In: ``node_token``, ``position`` int32 [B,N], ``node_count``, ``prefix_len`` int32 [B], ``block_table``
    int32 [B,M], ``kv`` bf16 bits [Y,G,S,R] (not changed). Out: ``q`` bf16 bits [B,N,Hq,Dk], 0 for nodes at
    or past node_count, and ``kv``, a copy in which layer y of slot prefix_len + i holds the row of node i.
    Query head h uses salt 0x51000000 + h, layer y salt 0x52000000 + y.

    ValueError: another shape or dtype, node_count outside 0..N, an unmapped slot of a live node.
    """
    dims = Dims()
    dims.take("node_token", node_token, np.int32, "B N")
    dims.take("position", position, np.int32, "B N")
    dims.take("node_count", node_count, np.int32, "B")
    dims.take("prefix_len", prefix_len, np.int32, "B")
    dims.take("block_table", block_table, np.int32, "B M")
    dims.take("kv", kv, np.uint16, "Y G S R")
    Hq, Dk = whole("Hq", Hq, 1), whole("Dk", Dk, 1)
    batch, nodes = node_token.shape
    layers, pages, page_slots, width = kv.shape

    q = np.zeros((batch, nodes, Hq, Dk), np.uint16)
    pool = kv.reshape(layers, pages * page_slots, width).copy()
    for b in range(batch):
        count = whole(f"node_count[{b}]", node_count[b], 0, nodes)
        token, place = node_token[b, :count], position[b, :count]
        for h in range(Hq):
            q[b, :count, h] = planted_values(token, place, QUERY_SALT + h, Dk)
        rows = pool_rows(block_table, b, int(prefix_len[b]) + np.arange(count), pages, page_slots)
        for y in range(layers):
            pool[y, rows] = planted_values(token, place, ROW_SALT + y, width)
    return {"q": q, "kv": pool.reshape(kv.shape)}


def planted_head(
    *,
    out: NDArray[np.uint16],
    node_count: NDArray[np.int32],
    head: NDArray[np.uint16],
    head_bias: NDArray[np.float32],
    head_token: NDArray[np.int32],
) -> Outputs:
    """Prediction of every live node: the token of the head row with the largest logit.

    In: ``out`` bf16 bits [B,N,Hq,Dv], ``node_count`` int32 [B], ``head`` bf16 bits [V,D] with D = Hq * Dv,
    ``head_bias`` float32 [V], ``head_token`` int32 [V]. Out: ``target_predict`` int32 [B,N].
    logit = head . out + bias; equal logits go to the lowest row; a node with a non-finite logit, or at or
    past node_count, gives -1. Logits within rounding of the largest are summed again without any, so the
    answer does not depend on the machine's order of summation.

    ValueError: another shape or dtype, D other than Hq * Dv, V of 0.
    """
    dims = Dims()
    dims.take("out", out, np.uint16, "B N Hq Dv")
    dims.take("node_count", node_count, np.int32, "B")
    dims.take("head", head, np.uint16, "V D")
    dims.take("head_bias", head_bias, np.float32, "V")
    dims.take("head_token", head_token, np.int32, "V")
    batch, nodes = out.shape[:2]
    if dims["D"] != dims["Hq"] * dims["Dv"] or dims["V"] < 1:
        raise ValueError(f"head: got {head.shape}, want [V >= 1, D = Hq * Dv = {dims['Hq'] * dims['Dv']}]")

    vectors = bf16_to_float64(out).reshape(batch, nodes, dims["D"])
    weights, bias = bf16_to_float64(head), head_bias.astype(np.float64)
    predict = np.full((batch, nodes), -1, np.int32)
    for b in range(batch):
        for i in range(min(int(node_count[b]), nodes)):
            row = _best_row(vectors[b, i], weights, bias)
            if row is not None:
                predict[b, i] = head_token[row]
    return {"target_predict": predict}


def _best_row(vector: Array, weights: Array, bias: Array) -> int | None:
    """Lowest row of the largest logit, or None where some logit is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        logits = weights @ vector + bias
        if not bool(np.isfinite(logits).all()):
            return None
        slack = 1e-12 * float((np.abs(weights) @ np.abs(vector) + np.abs(bias)).max())
    near = np.flatnonzero(logits >= logits.max() - slack).tolist()
    if len(near) == 1:
        return int(near[0])
    exact = [math.fsum([*(weights[row] * vector).tolist(), float(bias[row])]) for row in near]
    return int(near[exact.index(max(exact))])
