"""Second oracles: the same answers as the references by other, slower or plainer means."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

from references import bf16_to_float64

Ranks = tuple[int, ...]


def score(lp: np.ndarray, ranks: Ranks) -> float:
    total = 0.0
    for depth, rank in enumerate(ranks):
        total += float(lp[depth, rank])
    return total


def by_enumeration(lp: np.ndarray, budget: int) -> list[Ranks]:
    """Every rank tuple, sorted."""
    depths, width = lp.shape
    every = [r for d in range(1, depths + 1) for r in itertools.product(range(width), repeat=d)]
    scored = [(-score(lp, r), r) for r in every]
    return [r for cost, r in sorted(scored) if cost < math.inf][:budget]


def by_levels(lp: np.ndarray, budget: int) -> list[Ranks]:
    """The best ``budget`` of each depth, extended depth by depth, then one sort over all of them.

    Right because ancestors and better siblings come before a node, so no depth gives more than its best.
    """
    depths, width = lp.shape
    levels = []
    scores, paths = np.zeros(1), np.zeros((1, 0), np.int64)
    for depth in range(depths):
        if len(scores) == 0:
            break
        scores = (scores[:, None] + lp[depth].astype(np.float64)).ravel()
        keep = scores >= np.sort(scores)[-min(budget, len(scores)) :][0]  # and whatever ties with the last
        parent, rank = np.divmod(np.flatnonzero(keep), width)
        scores, paths = scores[keep], np.hstack([paths[parent], rank[:, None]])
        order = np.lexsort((*paths.T[::-1], -scores))[:budget]
        order = order[scores[order] > -math.inf]
        scores, paths = scores[order], paths[order]
        levels += [(-s, tuple(p)) for s, p in zip(scores.tolist(), paths.tolist(), strict=True)]
    return [ranks for _, ranks in sorted(levels)[:budget]]


def tree_from_ranks(
    ranks: list[Ranks], tokens: np.ndarray, root: int, prefix: int, budget: int
) -> dict[str, np.ndarray]:
    """All nine outputs of one request, from the sorted rank tuples, by look-ups in a dictionary."""
    nodes, words = budget + 1, (budget + 32) // 32
    paths = [(), *ranks]
    number = {path: i for i, path in enumerate(paths)}
    names = ("node_token", "node_parent", "node_depth", "position", "next_token", "next_sibling")
    out = {name: np.full(nodes, -1, np.int32) for name in names}
    out["tree_mask"] = np.zeros((nodes, words), np.uint32)
    for i, path in enumerate(paths):
        out["node_token"][i] = tokens[len(path) - 1, path[-1]] if path else root
        out["node_parent"][i] = number[path[:-1]] if path else -1
        out["node_depth"][i] = len(path)
        out["position"][i] = prefix + len(path)
        out["next_token"][i] = number.get((*path, 0), -1)
        if path:
            out["next_sibling"][i] = number.get((*path[:-1], path[-1] + 1), -1)
        for d in range(len(path) + 1):
            j = number[path[:d]]
            out["tree_mask"][i, j // 32] |= np.uint32(1 << (j % 32))
    out["node_count"] = np.array(len(paths), np.int32)
    out["tree_status"] = np.array(0, np.int32)
    return out


def accept_by_children(
    children: dict[int, list[int]], token: list[int], predict: list[int],
    stops: list[int], limit: int, depth_limit: int,
) -> dict[str, object]:  # fmt: skip
    """One request's answer, from an ordered list of children of every node."""
    path = [0]
    for _ in range(depth_limit):
        good = [c for c in children.get(path[-1], []) if token[c] == predict[path[-1]] != -1]
        if not good:
            break
        path.append(good[0])
    stream = [token[i] for i in path[1:]] + [predict[path[-1]]]
    cut = next((i + 1 for i, t in enumerate(stream) if t in stops and t != -1), 10**9)
    end = min(cut, limit)
    real = len(stream) - (stream[-1] == -1)
    sent = stream[: min(end, real)]
    drafts = min(len(path) - 1, end)
    pad = [-1] * (depth_limit + 1)
    return {
        "accept_index": (path[: drafts + 1] + pad)[: depth_limit + 1],
        "accept_len": drafts,
        "bonus_token": stream[-1] if len(sent) == len(path) else -1,
        "out_token": (sent + pad)[: depth_limit + 1],
        "finished": int(end <= real),
        "accept_status": 0,
    }


def softmax_online(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, scale: float, block: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """out, lse and m of one query [Dk] over keys [n,Dk] and values [n,Dv], block by block, in float64."""
    top, total = -math.inf, 0.0
    acc, acc_m = np.zeros((2, values.shape[1]))
    for lo in range(0, len(keys), block):
        s = [scale * math.fsum(q * k) for k in keys[lo : lo + block]]
        new = max(top, *s)
        old = math.exp(top - new) if top > -math.inf else 0.0
        total, acc, acc_m, top = total * old, acc * old, acc_m * old, new
        for weight, value in zip([math.exp(x - new) for x in s], values[lo : lo + block], strict=True):
            total += weight
            acc = acc + weight * value
            acc_m = acc_m + weight * abs(value)
    return acc / total, top + math.log(total), acc_m / total


def mix_int(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    return x ^ x >> 16


def value_int(token: int, position: int, salt: int, element: int) -> Fraction:
    """One element of a planted vector, in Python integers."""
    x = mix_int(token % 2**32 ^ salt)
    x = mix_int((x + position * 0x85EBCA6B) % 2**32)
    x = mix_int((x + element * 0xC2B2AE35) % 2**32)
    return Fraction((x >> 24) - 128, 128)


def make_rows(rng: np.random.Generator, shape: tuple[int, int, int], kind: str) -> np.ndarray:
    """Sorted float32 log-probs [B,L,K]: smooth, ties (a grid), peaked (float64 sums round) or holes."""
    x = rng.standard_normal(shape) * 2.0
    if kind == "peaked":
        x = -np.exp2(rng.uniform(-60, 60, shape))
    else:
        x = (
            x
            - x.max(axis=-1, keepdims=True)
            - np.log(np.exp(x - x.max(axis=-1, keepdims=True)).sum(-1))[..., None]
        )
    if kind in ("ties", "holes"):
        x = np.round(x)
    x = np.minimum(x, 0.0).astype(np.float32)
    if kind == "holes":
        x[rng.random(shape) < 0.3] = -np.inf
    return -np.sort(-x, axis=-1)


def distinct_tokens(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """int32 [B,L,K], distinct within a row."""
    return np.argsort(rng.random((*shape[:2], shape[2] + 7)), axis=-1)[..., : shape[2]].astype(np.int32)


def attention_by_slots(case, block):
    """Every output, node by node and head by head, from a dictionary slot -> row."""
    q, kv, dv, kv_heads = case["q"], case["kv"], case["Dv"], case["Hkv"]
    batch, nodes, heads, dk = q.shape
    scale = float(np.float32(case["scale"]))
    out, out_m = np.zeros((2, batch, nodes, heads, dv))
    lse, d = np.full((batch, nodes, heads), -np.inf), np.zeros((batch, nodes, heads))
    visible = np.zeros((batch, nodes), np.int32)
    for b in range(batch):
        prefix, count = int(case["prefix_len"][b]), int(case["node_count"][b])
        rows = {}
        for i in range(count):
            words = case["tree_mask"][b, i].tolist()
            tail = [j for j in range(count) if words[j // 32] >> (j % 32) & 1]
            slots = [*range(prefix), *(prefix + j for j in tail)]
            for slot in slots:
                page = case["block_table"][b, slot // kv.shape[1]]
                rows[slot] = bf16_to_float64(kv[page, slot % kv.shape[1]])
            visible[b, i] = len(slots)
            if not slots:
                continue
            seen = np.stack([rows[slot] for slot in slots])
            for h in range(heads):
                g = h // (heads // kv_heads)
                first = 0 if kv.shape[2] == dk else kv_heads * dk + g * dv
                key, value = seen[:, g * dk : (g + 1) * dk], seen[:, first : first + dv]
                query = bf16_to_float64(q[b, i, h])
                out[b, i, h], lse[b, i, h], out_m[b, i, h] = softmax_online(query, key, value, scale, block)
                d[b, i, h] = 2.0**-20 * (1 + scale * max(sum(abs(query * k)) for k in key))
    return {"out": out, "lse": lse, "out_m": out_m, "lse_d": d, "visible": visible}


def commit_by_dictionary(kv, block_table, prefix_len, accept_index, accept_len):
    """The pool as {(layer, page, place): row}; every row read before any is written."""
    slots = kv.shape[2]
    rows = {(y, g, s): kv[y, g, s].tobytes() for y, g, s in np.ndindex(kv.shape[:3])}
    old = dict(rows)
    for b, length in enumerate(accept_len.tolist()):
        for i in range(length + 1):
            to, origin = int(prefix_len[b]) + i, int(prefix_len[b]) + int(accept_index[b, i])
            for y in range(kv.shape[0]):
                source = old[y, int(block_table[b, origin // slots]), origin % slots]
                rows[y, int(block_table[b, to // slots]), to % slots] = source
    return rows
