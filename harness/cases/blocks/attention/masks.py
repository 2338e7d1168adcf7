"""Trees and masks for attention: what each node sees of the tail, as bool [n,n]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from harness.contract import mask_words
from harness.draw import Draw
from references import tree_build, unpack_mask

Sees = npt.NDArray[np.bool_]

TREES = ("best", "chain", "star", "comb", "binary", "random")


def tree_sees(draw: Draw, kind: str, nodes: int) -> Sees:
    """Row i sees itself and its ancestors in a tree of ``kind`` (see `TREES`) with ``nodes`` nodes.

    ``best`` is a real best-first tree over drawn candidates; it may have fewer nodes only where the
    candidates run out, which they do not here.
    """
    if kind == "best":
        return _best_first(draw, nodes)
    return ancestors(_parents(draw, kind, nodes))


def ancestors(parents: list[int]) -> Sees:
    """What each node sees, bool [n,n], from parents (-1 for the root, every parent before its child)."""
    sees = np.eye(len(parents), dtype=np.bool_)
    for i in range(1, len(parents)):
        sees[i] |= sees[parents[i]]
    return sees


def relabelled(draw: Draw, sees: Sees) -> Sees:
    """The same tree with its nodes in random order: an ancestor may have the larger index."""
    order = draw.permutation(len(sees))
    return sees[np.ix_(order, order)]


def causal(nodes: int) -> Sees:
    """What a chain sees: every node up to itself."""
    return np.tri(nodes, dtype=np.bool_)


def pack(sees: Sees, nodes: int) -> npt.NDArray[np.uint32]:
    """Mask words uint32 [nodes,W] of ``sees`` bool [n,n]; rows at or past n, and every other bit, are 0."""
    words = mask_words(nodes)
    bits = np.zeros((nodes, words * 32), np.bool_)
    bits[: sees.shape[0], : sees.shape[1]] = sees
    return np.packbits(bits, axis=-1, bitorder="little").view("<u4").astype(np.uint32)


def stray(draw: Draw, words: npt.NDArray[np.uint32], live: int) -> npt.NDArray[np.uint32]:
    """``words`` uint32 [N,W] with random bits at and past column ``live`` and in rows at and past it."""
    nodes, width = words.shape
    noise = (draw.words(nodes * width) & np.uint64(0xFFFFFFFF)).astype(np.uint32).reshape(nodes, width)
    keep = np.zeros((nodes, nodes), np.bool_)
    keep[:live, :live] = True
    kept = pack(keep, nodes)
    return (words & kept) | (noise & ~kept)


def _parents(draw: Draw, kind: str, nodes: int) -> list[int]:
    if kind == "random":
        return [-1, *(draw.integer(0, i - 1) for i in range(1, nodes))]
    rules: dict[str, Callable[[int], int]] = {
        "chain": lambda i: i - 1,
        "star": lambda i: 0,
        "comb": lambda i: i - 1 if i % 2 == 0 else max(i - 2, 0),  # odd nodes are the spine, even the teeth
        "binary": lambda i: (i - 1) // 2,
    }
    if kind not in rules:
        raise ValueError(f"tree: got {kind!r}, want one of {', '.join(TREES)}")
    return [-1, *(rules[kind](i) for i in range(1, nodes))]


def _best_first(draw: Draw, nodes: int) -> Sees:
    depths, width = (8, 16) if nodes <= 129 else (16, 64)
    costs = np.cumsum(draw.below(1 << 18, (1, depths, width)), axis=-1)  # below 2^24: exact in float32
    logprob = np.ldexp(-costs.astype(np.float32), -20)
    built = tree_build(
        topk_logprob=logprob,
        topk_token=np.arange(depths * width, dtype=np.int32).reshape(1, depths, width),
        root_token=np.zeros(1, np.int32),
        prefix_len=np.zeros(1, np.int32),
        budget=nodes - 1,
    )
    return unpack_mask(built["tree_mask"][0], nodes)
