"""tree_accept: malformed links and sizes. The walk must end, the status say so, the neighbours stay right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.case import AnyArray, materialize
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.places import PLACES, place
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.walks import FRESH, Walk, accept_inputs, walk
from harness.draw import Draw

# Each kind edits one link of a tree of 9 live nodes in a row of 12 slots:
#     0 -> 1, 2, 4    1 -> 3    2 -> 5, 7    5 -> 6    4 -> 8      the target follows 0-2-5-6
PARENTS = (-1, 0, 0, 1, 0, 2, 5, 2, 4)
LIVE, SLOTS = len(PARENTS), 12
NEVER = -1  # a token that no node carries


class Link(NamedTuple):
    """Node ``node`` gets link ``to``; node ``at`` predicts the token of ``token``, which leads over it."""

    name: str
    node: int
    to: int
    at: int = -1
    token: int = NEVER


LINKS = {
    "sibling_cycle": Link("next_sibling", 4, 1, at=0),
    "sibling_self": Link("next_sibling", 4, 4, at=0),
    "child_self": Link("next_token", 6, 6, at=6, token=6),
    "child_to_root": Link("next_token", 6, 0, at=6, token=0),
    "backward": Link("next_token", 6, 2, at=6, token=2),
    "to_padding": Link("next_token", 6, LIVE, at=6),
    "past_slots": Link("next_token", 6, SLOTS, at=6),
    "huge": Link("next_sibling", 4, 2**31 - 1, at=0),
    "minus_two": Link("next_token", 6, -2, at=6),
    "least": Link("next_sibling", 6, -(2**31), at=5),
    "two_parents": Link("next_token", 6, 8, at=6, token=8),
    "child_and_sibling": Link("next_sibling", 5, 6, at=2, token=6),
    "root_sibling": Link("next_sibling", 0, 8),
    "unwalked_cycle": Link("next_sibling", 3, 3),
    "unwalked_huge": Link("next_token", 8, 99),
    "unwalked_shared": Link("next_sibling", 3, 7),
}
COUNTS = {"count_minus": -1, "count_least": -(2**31), "count_past": SLOTS + 1, "count_huge": 2**31 - 1}
KINDS = (*LINKS, *COUNTS)


def whole_request(draw: Draw) -> Walk:
    """A request with the tree above; it is good until a link of it is edited."""
    one = walk(draw, np.array(PARENTS), 0)
    one.predict[[0, 2, 5, 6]] = *one.token[[2, 5, 6]], FRESH
    return one


def _invalid(params: Params, draw: Draw) -> Draft:
    """A bad request at ``at`` of three, whose walk meets the bad link: it would hang or leave the tree."""
    kind, bad = str(params["bad"]), place(str(params["at"]), 3)
    walks = [whole_request(draw) for _ in range(3)]
    if kind in COUNTS:
        inputs = accept_inputs(walks, SLOTS)
        inputs["node_count"] = edited(materialize(inputs["node_count"]), bad, COUNTS[kind])
        return Draft(inputs, {"depth_limit": 8}, ("bad_count", "neighbours_good"), "invalid")
    link = LINKS[kind]
    if link.at >= 0:
        walks[bad].predict[link.at] = FRESH + 1 if link.token == NEVER else walks[bad].token[link.token]
    inputs = accept_inputs(walks, SLOTS)
    inputs[link.name] = edited(materialize(inputs[link.name]), (bad, link.node), link.to)
    unwalked = ("unwalked_links",) if link.at < 0 else ()
    return Draft(inputs, {"depth_limit": 8}, ("bad_links", "neighbours_good", *unwalked), "invalid")


def edited(array: AnyArray, index: int | tuple[int, int], value: int) -> AnyArray:
    """A copy of ``array`` with one element replaced."""
    array = array.copy()
    array[index] = value
    return array


INVALID = Family(
    "invalid",
    "tree_accept",
    "Cycles, links out of range or backwards, nodes with two parents, sizes out of range.",
    tiers(
        grid(bad=("sibling_cycle", "huge", "two_parents", "unwalked_cycle", "count_past"), at=("middle",)),
        grid(bad=KINDS, at=PLACES),
    ),
    _invalid,
)
