"""Hostile contents for what a kernel must not look at: unused pool rows and the queries of dead nodes.

NaN in the first run (0 * NaN is NaN), huge finite values in the second (a NaN filter cannot hide them).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray

NAN_BITS = 0x7FC1
HUGE_BITS = (0x7F00, 0xFF00)  # +-1.7e38 as bf16, on even and odd elements

Rows = npt.NDArray[np.int64]


def pattern(round_index: int, width: int) -> npt.NDArray[np.uint16]:
    """One hostile bf16 row."""
    if round_index % 2 == 0:
        return np.full(width, NAN_BITS, np.uint16)
    return np.resize(np.array(HUGE_BITS, np.uint16), width)


def dead_attention_rows(inputs: Mapping[str, AnyArray]) -> Rows:
    """Rows of the flattened pool [G*S] of verify_attn that no live node of any request sees."""
    pages, page_slots, _ = inputs["kv"].shape
    nodes = inputs["tree_mask"].shape[1]
    seen = np.zeros(pages * page_slots, np.bool_)
    for b, count in enumerate(np.clip(inputs["node_count"], 0, nodes).tolist()):
        if count == 0:
            continue
        union = np.bitwise_or.reduce(inputs["tree_mask"][b, :count], axis=0).astype("<u4")
        bits = np.unpackbits(union.view(np.uint8), bitorder="little")[:count]
        prefix = max(int(inputs["prefix_len"][b]), 0)
        _mark(seen, inputs["block_table"][b], np.arange(prefix), page_slots)
        _mark(seen, inputs["block_table"][b], prefix + np.flatnonzero(bits), page_slots)
    return np.flatnonzero(~seen)


def dead_step_rows(inputs: Mapping[str, AnyArray], nodes: int, layer: int) -> list[Rows]:
    """Per layer, rows of the flattened pool that no step of a greedy_step case reads or writes.

    In the attention layer these are the rows outside 0..prefix_len + N of every active request; in the
    others the prefix of the first step is unread too.
    """
    layers, pages, page_slots, _ = inputs["kv"].shape
    used = np.zeros((layers, pages * page_slots), np.bool_)
    for root, prefix in zip(inputs["root_token"], inputs["prefix_len"], strict=True):
        for b in np.flatnonzero(root != -1).tolist():
            start = int(prefix[b])
            tail = np.arange(start, start + nodes)
            _mark(used[layer], inputs["block_table"][b], np.arange(start), page_slots)
            for y in range(layers):
                _mark(used[y], inputs["block_table"][b], tail, page_slots)
    return [np.flatnonzero(~used[y]) for y in range(layers)]


def dead_queries(node_count: AnyArray, nodes: int) -> npt.NDArray[np.bool_]:
    """[B,N]: slots at or past node_count."""
    dead: npt.NDArray[np.bool_] = np.arange(nodes)[None, :] >= node_count[:, None]
    return dead


def _mark(seen: npt.NDArray[np.bool_], table: AnyArray, slots: AnyArray, page_slots: int) -> None:
    slots = slots[slots // page_slots < table.shape[0]]
    pages = table[slots // page_slots].astype(np.int64)
    rows = pages * page_slots + slots % page_slots
    seen[rows[(pages >= 0) & (rows < seen.size)]] = True
