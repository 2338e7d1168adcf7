"""tree_accept: rare but ordinary: token 0, tokens alike in their low bits, long lists, late damage."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from harness.case import materialize
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.shapes import tree
from harness.cases.blocks.walks import FRESH, Walk, accept_inputs, walk
from harness.cases.tree_accept.invalid import edited
from harness.cases.tree_accept.limits import emitted, spine
from harness.cases.tree_accept.walks import lead
from harness.draw import Draw

LOW_BITS = {"low16": 1 << 16, "low24": 1 << 24}  # tokens that differ by this much look equal to a narrow one


def _zero(draw: Draw) -> Draft:
    """Token 0 is the first draft of one request and the bonus of the other."""
    first, path = spine(draw, 13)
    first.token[path[1]] = first.predict[0] = 0
    second, path = spine(draw, 13)
    second.predict[path[-1]] = 0
    return Draft(accept_inputs([first, second], 13), {"depth_limit": 8}, ("token_zero",))


def _low_bits(draw: Draw, kind: str) -> Draft:
    """Before the predicted child of each node stands a sibling whose token has the same low bits."""
    one, path = spine(draw, 17)
    for node, child in pairwise(path):
        decoys = [i for i in range(1, child) if one.parents[i] == node]
        if decoys:
            one.token[decoys[0]] = one.token[child] + LOW_BITS[kind]
    return Draft(accept_inputs([one], 17), {"depth_limit": 8}, ("narrow_tokens",))


def _stops(draw: Draw, size: int) -> Draft:
    """The last of ``size`` stop tokens is the third draft."""
    one, path = spine(draw, 13)
    stop = [FRESH + 100 + k for k in range(size - 1)] + [emitted(one, path)[2]]
    return Draft(accept_inputs([one], 13, stop), {"depth_limit": 8}, ("stop_token",))


def _crowd(draw: Draw, batch: int) -> Draft:
    """``batch`` requests, each with its own path."""
    walks: list[Walk | None] = [lead(draw, "gaps", 9) for _ in range(batch)]
    walks[batch // 2] = walk(draw, tree(draw, "random", 7))
    return Draft(accept_inputs(walks, 9), {"depth_limit": 4}, ("ragged_batch", "many_requests"))


def _late(draw: Draw, slot: int) -> Draft:
    """A chain of 129 nodes, accepted for 8 of them, whose link at ``slot`` leads backwards."""
    walks = [walk(draw, np.arange(129) - 1, 100) for _ in range(2)]
    inputs = accept_inputs(walks, 129)
    inputs["next_token"] = edited(materialize(inputs["next_token"]), (0, slot), 3)
    flags = ("bad_links", "neighbours_good", "unwalked_links")
    return Draft(inputs, {"depth_limit": 8}, flags, "invalid")


def _edges(params: Params, draw: Draw) -> Draft:
    edge, size = str(params["edge"]), int(params["size"])
    if edge == "zero":
        return _zero(draw)
    if edge in LOW_BITS:
        return _low_bits(draw, edge)
    if edge == "stops":
        return _stops(draw, size)
    return _crowd(draw, size) if edge == "crowd" else _late(draw, size)


EDGES = Family(
    "edges",
    "tree_accept",
    "Token 0, tokens alike in their low bits, stop lists of up to 65, 80 requests, bad links in late slots.",
    tiers(
        grid(edge=("zero",), size=(0,)),
        [
            *grid(edge=tuple(LOW_BITS), size=(0,)),
            *grid(edge=("stops",), size=(9, 33, 65)),
            *grid(edge=("crowd",), size=(33, 80)),
            *grid(edge=("late",), size=(33, 70, 128)),
        ],
    ),
    _edges,
)
