"""verify_attn: attention of every tree node over the paged prefix and the tail rows its mask names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._checks import Array, Dims, Outputs, pool_rows, whole
from .bf16 import bf16_to_float64

CHUNK = 8192  # keys converted to float64 at a time, so that a long prefix fits in memory


def verify_attn(
    *,
    q: NDArray[np.uint16],
    kv: NDArray[np.uint16],
    block_table: NDArray[np.int32],
    prefix_len: NDArray[np.int32],
    node_count: NDArray[np.int32],
    tree_mask: NDArray[np.uint32],
    Hkv: int,
    Dv: int,
    scale: float,
    rows: NDArray[np.bool_] | None = None,
) -> Outputs:
    """Softmax attention in float64 of the live nodes of every request.

    In: ``q`` bf16 bits [B,N,Hq,Dk], ``kv`` bf16 bits [G,S,R], ``block_table`` int32 [B,M], ``prefix_len``
    and ``node_count`` int32 [B], ``tree_mask`` uint32 [B,N,W] with W = ceil(N / 32); ``scale`` is taken as
    a float32. R == Dk means mla rows (Hkv 1; key = the row, value = its first Dv elements), otherwise
    R = Hkv * (Dk + Dv), all key heads, then all value heads. Query head h reads KV head h // (Hq / Hkv).

    Node i < node_count sees slots 0..prefix_len-1 and slot prefix_len + j of every set bit j < node_count.
    Out, with p the softmax weights and v the values: ``out`` float64 [B,N,Hq,Dv] = sum_j p_j v_j and
    ``lse`` float64 [B,N,Hq] (natural log), 0 and -inf where nothing is seen. For the allowance of a
    comparison: ``out_m`` float64 [B,N,Hq,Dv] = sum_j p_j |v_j|, ``lse_d`` float64 [B,N,Hq] = 2^-20 (1 +
    scale * max over visible j of sum_i |q_i k_ji|), ``visible`` int32 [B,N] = number of keys seen; 0 where
    nothing is seen.

    ``rows`` bool [B,N], if given, selects the nodes to compute; the others read as seeing nothing.
    A slot that no computed node sees is never read. A non-finite visible row (a broken precondition)
    makes only the nodes that see it non-finite.

    ValueError: another shape or dtype, a layout that does not fit R, node_count outside 0..N, a negative
    prefix_len, a visible slot that is not mapped.
    """
    dims = Dims()
    dims.take("q", q, np.uint16, "B N Hq Dk")
    dims.take("kv", kv, np.uint16, "G S R")
    dims.take("block_table", block_table, np.int32, "B M")
    dims.take("prefix_len", prefix_len, np.int32, "B")
    dims.take("node_count", node_count, np.int32, "B")
    dims.take("tree_mask", tree_mask, np.uint32, "B N W")
    batch, nodes, heads, key_width = q.shape
    if dims["W"] != (nodes + 31) // 32:
        raise ValueError(f"tree_mask: got {dims['W']} words a row, want {(nodes + 31) // 32} for N = {nodes}")
    if rows is not None:
        dims.take("rows", rows, np.bool_, "B N")
    Hkv, Dv = whole("Hkv", Hkv, 1), whole("Dv", Dv, 1)
    _check_layout(heads, key_width, dims["R"], Hkv, Dv)
    factor = float(np.float32(scale))

    out = np.zeros((batch, nodes, heads, Dv))
    out_m = np.zeros_like(out)
    lse = np.full((batch, nodes, heads), -np.inf)
    lse_d = np.zeros((batch, nodes, heads))
    visible = np.zeros((batch, nodes), np.int32)
    pool = kv.reshape(-1, dims["R"])
    for b in range(batch):
        count = whole(f"node_count[{b}]", node_count[b], 0, nodes)
        if count == 0:
            continue
        prefix = whole(f"prefix_len[{b}]", prefix_len[b], 0)
        live = np.arange(count) if rows is None else np.flatnonzero(rows[b, :count])
        tail = unpack_mask(tree_mask[b, live], count)
        if prefix == 0:  # a node that sees nothing keeps 0 and -inf
            live, tail = live[tail.any(axis=1)], tail[tail.any(axis=1)]
        for some in _groups(tail, pool, block_table, b, prefix, dims):
            seen = np.flatnonzero(tail[some].any(axis=0))
            slots = np.concatenate([np.arange(prefix), prefix + seen])
            index = pool_rows(block_table, b, slots, dims["G"], dims["S"])
            sees = np.concatenate([np.ones((len(some), prefix), np.bool_), tail[some][:, seen]], axis=1)
            at = live[some]
            queries = bf16_to_float64(q[b, at])
            out[b, at], out_m[b, at], lse[b, at], lse_d[b, at] = _attend(
                queries, pool, index, sees, Hkv, Dv, factor
            )
            visible[b, at] = sees.sum(axis=1)
    return {"out": out, "lse": lse, "out_m": out_m, "lse_d": lse_d, "visible": visible}


def unpack_mask(words: NDArray[np.uint32], count: int) -> NDArray[np.bool_]:
    """Bits of ``words`` uint32 [...,W] as bool [...,count]; bit j is bit j % 32 of word j // 32."""
    raw = np.ascontiguousarray(words, dtype="<u4").view(np.uint8)
    return np.unpackbits(raw, axis=-1, count=count, bitorder="little").astype(np.bool_)


def _check_layout(heads: int, key_width: int, row: int, Hkv: int, Dv: int) -> None:
    if heads % Hkv:
        raise ValueError(f"Hkv: got {Hkv}, want a divisor of Hq = {heads}")
    if row == key_width:
        if Hkv != 1 or Dv > row:
            raise ValueError(f"kv: R = Dk = {row} means mla rows, want Hkv = 1 and Dv <= R, got {Hkv}, {Dv}")
    elif row != Hkv * (key_width + Dv):
        wide = Hkv * (key_width + Dv)
        raise ValueError(f"kv: got R = {row}, want Dk = {key_width} (mla) or Hkv * (Dk + Dv) = {wide} (gqa)")


def _groups(
    tail: Array, pool: Array, block_table: Array, request: int, prefix: int, dims: Dims
) -> list[NDArray[np.intp]]:
    """Rows of ``tail`` to compute together: all, or one by one where a tail row that some see is not finite.

    (In a matrix product a hidden key has weight 0, and 0 times NaN is NaN.)
    """
    everyone = np.arange(len(tail))
    if len(tail) == 0:
        return []
    slots = prefix + np.flatnonzero(tail.any(axis=0))
    bits = pool[pool_rows(block_table, request, slots, dims["G"], dims["S"])]
    finite = bool(((bits & 0x7F80) != 0x7F80).all())
    return [everyone] if finite else list(everyone[:, None])


def _attend(
    q: Array, pool: Array, index: Array, sees: Array, Hkv: int, Dv: int, scale: float
) -> tuple[Array, Array, Array, Array]:
    """out, m [n,Hq,Dv] and lse, d [n,Hq] of queries float64 [n,Hq,Dk] over pool rows ``index`` [k].

    ``sees`` bool [n,k]; every query sees at least one key. Two passes over the keys: the first keeps every
    score, the second sums the values.
    """
    nodes, heads, key_width = q.shape
    mla = pool.shape[1] == key_width
    keys, share = len(index), heads // Hkv
    scores = np.empty((Hkv, nodes, share, keys))
    reach = np.zeros((Hkv, nodes, share))
    out, out_m = np.zeros((2, Hkv, nodes, share, Dv))
    by_head = np.ascontiguousarray(q.reshape(nodes, Hkv, share, key_width).swapaxes(0, 1))
    chunks = [slice(lo, min(lo + CHUNK, keys)) for lo in range(0, keys, CHUNK)]
    with np.errstate(invalid="ignore", over="ignore"):
        for part in chunks:
            rows = bf16_to_float64(pool[index[part]])
            sizes = np.abs(rows)
            for h in range(Hkv):
                key = slice(h * key_width, (h + 1) * key_width)
                flat = by_head[h].reshape(nodes * share, key_width)
                scores[h, :, :, part] = (flat @ rows[:, key].T).reshape(nodes, share, -1)
                size = (np.abs(flat) @ sizes[:, key].T).reshape(nodes, share, -1)
                reach[h] = np.maximum(reach[h], np.where(sees[:, None, part], size, 0.0).max(axis=-1))
        scores *= scale
        scores[:, ~sees[:, None].repeat(share, axis=1)] = -np.inf
        top = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=-1, keepdims=True)
        weights /= total
        for part in chunks:
            if len(chunks) > 1:  # a single chunk is still at hand
                rows = bf16_to_float64(pool[index[part]])
                sizes = np.abs(rows)
            for h in range(Hkv):
                first = 0 if mla else Hkv * key_width + h * Dv
                value = slice(first, first + Dv)
                flat = weights[h, :, :, part].reshape(nodes * share, -1)
                out[h] += (flat @ rows[:, value]).reshape(nodes, share, Dv)
                out_m[h] += (flat @ sizes[:, value]).reshape(nodes, share, Dv)
    lse = (top + np.log(total))[..., 0]
    d = 2.0**-20 * (1.0 + abs(scale) * reach)
    heads_last = (nodes, heads)
    return (
        out.swapaxes(0, 1).reshape(*heads_last, Dv),
        out_m.swapaxes(0, 1).reshape(*heads_last, Dv),
        lse.swapaxes(0, 1).reshape(heads_last),
        d.swapaxes(0, 1).reshape(heads_last),
    )
