"""What a case costs at least: bytes and operations of its live nodes, not of the padded shape.

Only what no implementation can avoid is counted: rows that some node sees, entries that have to be looked
at, outputs of live slots. Intermediates of a composed step may stay on the chip and cost nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.case import AnyArray, Case, known
from harness.memory.hostile import dead_attention_rows
from harness.shapes import is_planted, shape_of

_WORD = 4  # bytes of an index, a float32, a mask word
_BF16 = 2


@dataclass(frozen=True)
class Work:
    """Bytes read and written, floating-point operations (a multiply-add is two), nodes."""

    read_bytes: int
    written_bytes: int
    flops: int
    live_nodes: int

    @property
    def touched(self) -> int:
        """Bytes read or written."""
        return self.read_bytes + self.written_bytes

    def __add__(self, other: Work) -> Work:
        return Work(
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
            self.flops + other.flops,
            max(self.live_nodes, other.live_nodes),
        )


def work_of(case: Case) -> Work:
    """The work of one call. greedy_step: of its first step."""
    arrays = {
        n: v for n, v in {**case.inputs, **case.expected}.items() if n not in ("kv", "q", "out", "out_m")
    }
    plain = {name: known(value) for name, value in arrays.items()}
    shapes = {name: shape_of(value) for name, value in {**case.expected, **case.inputs}.items()}
    if case.kernel == "tree_build":
        return _build(plain)
    if case.kernel == "verify_attn":
        return _attention(plain, shapes)
    if case.kernel == "tree_accept":
        return _accept(plain)
    if case.kernel == "kv_commit":
        return _commit(plain, shapes["kv"][-1] * shapes["kv"][0])
    return _step(plain, shapes, is_planted(case.inputs))


def _build(a: Mapping[str, AnyArray]) -> Work:
    """Every log-prob of an active request is checked; tokens are fetched for the nodes alone."""
    nodes, active = int(a["node_count"].sum()), int(np.count_nonzero(a["root_token"] != -1))
    per_request = int(np.prod(a["topk_logprob"].shape[1:]))
    read = active * (per_request + 2) * _WORD + max(nodes - active, 0) * _WORD
    words = a["tree_mask"].shape[-1]
    return Work(read, nodes * (6 + words) * _WORD + 2 * active * _WORD, 0, nodes)


def _attention(a: Mapping[str, AnyArray], shapes: Mapping[str, tuple[int, ...]]) -> Work:
    """Every visible row is read once, whoever shares it; every live query meets every key that it sees."""
    batch, slots, heads, key = shapes["q"]
    value, row = shapes["out"][-1], shapes["kv"][-1]
    counts = np.clip(a["node_count"], 0, slots)
    live = np.arange(slots)[None, :] < counts[:, None]
    below = np.packbits(live, axis=1, bitorder="little")
    wide = np.zeros((batch, a["tree_mask"].shape[-1] * 4), np.uint8)
    wide[:, : below.shape[1]] = below
    bits = a["tree_mask"].astype("<u4") & wide.view("<u4")[:, None, :]
    seen = np.bitwise_count(bits).sum(axis=-1, dtype=np.int64) + np.maximum(a["prefix_len"], 0)[:, None]
    pairs, nodes = int(seen[live].sum()), int(counts.sum())
    pool: AnyArray = np.broadcast_to(np.uint16(0), shapes["kv"])
    rows = pool.shape[0] * pool.shape[1] - len(dead_attention_rows({**a, "kv": pool}))
    read = rows * row * _BF16 + nodes * heads * key * _BF16 + nodes * bits.shape[-1] * _WORD
    written = nodes * heads * (value * _BF16 + _WORD)
    return Work(read, written, 2 * heads * pairs * (key + value), nodes)


def _accept(a: Mapping[str, AnyArray]) -> Work:
    """Both links of every live node are checked, tokens and predictions are read along the path."""
    nodes = int(np.clip(a["node_count"], 0, a["node_token"].shape[-1]).sum())
    path = int(np.maximum(a["accept_len"] + 1, 0).sum())
    batch = len(a["node_count"])
    return Work((2 * nodes + 2 * path + 2 * batch) * _WORD, (2 * path + 4 * batch) * _WORD, 0, nodes)


def _commit(a: Mapping[str, AnyArray], row_bytes: int) -> Work:
    """Rows that stay where they are cost nothing. ``row_bytes``: of one slot in all layers."""
    moved = sum(
        int(np.count_nonzero(index[: length + 1] != np.arange(length + 1)))
        for index, length in zip(a["accept_index"], a["accept_len"].tolist(), strict=True)
        if length >= 0
    )
    batch = len(a["accept_len"])
    index_bytes = int(np.maximum(a["accept_len"] + 1, 0).sum()) * _WORD
    return Work(moved * row_bytes + index_bytes + 2 * batch * _WORD, moved * row_bytes + batch * _WORD, 0, 0)


def _step(a: Mapping[str, AnyArray], shapes: Mapping[str, tuple[int, ...]], planted: bool) -> Work:
    """Log-probs, queries and visible rows come from memory; the rest may stay on the chip."""
    a = {
        name: v[0] if v.ndim and name != "block_table" and name != "stop_token" else v
        for name, v in a.items()
    }
    layers, pages, page_slots, row = shapes["kv"]
    out = shapes["out"][1:]
    key = shapes["q"][-1] if "q" in shapes else row
    inner = {"q": (*out[:3], key), "out": out, "kv": (pages, page_slots, row)}
    attention, build = _attention(a, inner), _build(a)
    queries = 0 if planted else attention.live_nodes * out[2] * key * _BF16
    tail = attention.live_nodes * row * _BF16 if planted else 0  # made on the device
    rows = attention.read_bytes - attention.live_nodes * (
        out[2] * key * _BF16 + a["tree_mask"].shape[-1] * _WORD
    )
    commit = _commit(a, row * _BF16 * layers)
    # Rows moved in the attention layer have been read by then; those of the other layers have not.
    read = (
        build.read_bytes + max(rows - tail, 0) + queries + commit.read_bytes * (layers - 1) // max(layers, 1)
    )
    return Work(read, commit.written_bytes, attention.flops, attention.live_nodes)


NOTHING = Work(0, 0, 0, 0)
