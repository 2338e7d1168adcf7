"""Requests of tree_accept: trees with tokens and predictions, stacked into the kernel's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.case import Value
from harness.cases.blocks.shapes import I64, follow, links
from harness.cases.blocks.topk import VOCABULARY
from harness.contract import NO_LIMIT
from harness.draw import Draw

FRESH = VOCABULARY  # tokens from here on occur nowhere by chance


@dataclass
class Walk:
    """One request: ``parents``, ``token``, ``predict``, ``child`` and ``sibling`` links, all int64 [n]."""

    parents: I64
    token: I64
    predict: I64
    child: I64
    sibling: I64
    limit: int = NO_LIMIT

    @property
    def count(self) -> int:
        """Live nodes."""
        return len(self.parents)


def walk(draw: Draw, parents: I64, percent: int = 70, limit: int = NO_LIMIT) -> Walk:
    """A request on ``parents`` with distinct tokens; ``percent`` of its nodes predict a child."""
    token = draw.distinct(VOCABULARY, len(parents))
    child, sibling = links(parents)
    return Walk(parents, token, follow(draw, parents, token, percent), child, sibling, limit)


def accept_inputs(
    walks: Sequence[Walk | None], nodes: int, stop: Sequence[int] = (), junk: Draw | None = None
) -> dict[str, Value]:
    """Inputs of tree_accept with N = ``nodes``; None is an inactive request.

    Slots at or past node_count hold -1, or, with ``junk``, tokens and predictions that occur in the tree and
    links into it.
    """
    rows = np.full((4, len(walks), nodes), -1, np.int32)
    count = np.zeros(len(walks), np.int32)
    limit = np.full(len(walks), NO_LIMIT, np.int32)
    for b, one in enumerate(walks):
        if junk is not None:
            rows[:, b] = _junk(junk, one, nodes)
        if one is not None:
            rows[:, b, : one.count] = one.token, one.child, one.sibling, one.predict
            count[b], limit[b] = one.count, one.limit
    token, child, sibling, predict = rows
    return {
        "node_token": token,
        "next_token": child,
        "next_sibling": sibling,
        "target_predict": predict,
        "node_count": count,
        "stop_token": np.array(stop, np.int32),
        "token_limit": limit,
    }


def _junk(draw: Draw, one: Walk | None, nodes: int) -> npt.NDArray[np.int64]:
    """int64 [4,nodes]: tokens that match, links to any slot, predictions of tokens in the tree."""
    known = draw.below(100, 4) if one is None else np.concatenate([one.token, one.predict])
    pick = draw.below(len(known), (2, nodes))
    link = draw.below(nodes, (2, nodes))
    return np.stack([known[pick[0]], link[0], link[1], known[pick[1]]])
