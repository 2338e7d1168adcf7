"""Lint: an expected tree is one. Parents come before children, links and masks follow from the parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.case import AnyArray
from references import unpack_mask

_LIVE_ONLY = ("node_token", "node_parent", "node_depth", "position", "next_token", "next_sibling")


def tree_findings(arrays: Mapping[str, AnyArray], prefix_len: AnyArray) -> Iterator[str]:
    """One line for each request whose tree is broken.

    ``arrays``: the outputs of tree_build for one call, [B,N], [B,N,W] and [B]; ``prefix_len`` int32 [B].
    """
    for b, live in enumerate(arrays["node_count"].tolist()):
        nodes = arrays["node_parent"].shape[1]
        if not 0 <= live <= nodes:
            yield f"request {b}: node_count {live} of {nodes} slots"
            continue
        dead = [(arrays[name][b, live:] != -1).any() for name in _LIVE_ONLY]
        if any(dead) or arrays["tree_mask"][b, live:].any():
            yield f"request {b}: slots past node_count {live} are not -1 and mask 0"
        if live:
            found = _broken({name: arrays[name][b, :live] for name in (*_LIVE_ONLY, "tree_mask")},
                            int(prefix_len[b]))  # fmt: skip
            if found is not None:
                yield f"request {b}: {found}"


def _broken(tree: Mapping[str, AnyArray], prefix: int) -> str | None:
    """What is wrong with the live part of one tree."""
    parent = tree["node_parent"].astype(np.int64)
    live = len(parent)
    if parent[0] != -1 or (parent[1:] < 0).any() or (parent >= np.arange(live)).any():
        return "a parent does not come before its child"
    depth = np.zeros(live, np.int64)
    sees = np.eye(live, dtype=np.bool_)
    child, sibling, last = (np.full(live, -1, np.int64) for _ in range(3))
    for i in range(1, live):
        p = parent[i]
        depth[i] = depth[p] + 1
        sees[i] |= sees[p]
        if child[p] == -1:
            child[p] = i
        else:
            sibling[last[p]] = i
        last[p] = i
    wanted = {"node_depth": depth, "position": prefix + depth, "next_token": child, "next_sibling": sibling}
    for name, values in wanted.items():
        if (tree[name] != values).any():
            return f"{name} does not follow from the parents at node {int(np.argmax(tree[name] != values))}"
    words = tree["tree_mask"]
    if (unpack_mask(words, live) != sees).any() or _spare_bits(words, live):
        return "tree_mask is not the ancestors"
    return None


def _spare_bits(words: AnyArray, live: int) -> bool:
    bits = np.unpackbits(np.ascontiguousarray(words).astype("<u4").view(np.uint8), axis=1, bitorder="little")
    return bool(bits[:, live:].any())
