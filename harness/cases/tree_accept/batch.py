"""tree_accept: ragged batches, inactive requests, and slots past node_count that look alive."""

from __future__ import annotations

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.places import PLACES, place
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.shapes import SHAPES, tree
from harness.cases.blocks.walks import Walk, accept_inputs, walk
from harness.cases.tree_accept.walks import PATHS, lead
from harness.draw import Draw


def request(draw: Draw, most: int) -> Walk:
    """A request of 1 to ``most`` nodes, of any shape, with or without a chosen path."""
    count = draw.integer(1, most)
    if count >= 9 and draw.integer(0, 1):
        return lead(draw, draw.choice(PATHS), count)
    return walk(draw, tree(draw, draw.choice(SHAPES), count), 90)


def _ragged(params: Params, draw: Draw) -> Draft:
    """``B`` requests of other sizes and paths: one accepts nothing while its neighbour accepts {0,2,5}."""
    batch, nodes = int(params["B"]), int(params["N"])
    walks = [request(draw, nodes) for _ in range(batch - 2)]
    walks.insert(draw.integer(0, batch - 2), lead(draw, "gaps", nodes))
    walks.insert(draw.integer(0, batch - 1), lead(draw, "none", nodes - draw.integer(0, nodes - 9)))
    return Draft(
        accept_inputs(walks, nodes),
        {"depth_limit": int(params["A"]) - 1},
        ("ragged_batch", "off_first_branch", "nothing_accepted"),
    )


def _padding(params: Params, draw: Draw) -> Draft:
    nodes, asleep = int(params["N"]), params["sleep"] != "none"
    walks: list[Walk | None] = [
        request(draw, nodes - 1), walk(draw, tree(draw, "random", 1)), lead(draw, "gaps", 9)
    ]  # fmt: skip
    if asleep:
        walks.insert(place(str(params["sleep"]), 4), None)
    flags = ("hostile_padding", *(("inactive",) if asleep else ()))
    return Draft(accept_inputs(walks, nodes, junk=draw), {"depth_limit": 6}, flags)


def _inactive(params: Params, draw: Draw) -> Draft:
    batch, at = int(params["B"]), str(params["at"])
    walks: list[Walk | None] = [request(draw, 12) for _ in range(batch)]
    if at == "all":
        walks = [None] * batch
    else:
        walks[place(at, batch)] = None
    flags = ("inactive", *(("empty",) if at == "all" else ()))
    return Draft(accept_inputs(walks, 12, stop=(7,)), {"depth_limit": 5}, flags)


RAGGED = Family(
    "ragged",
    "tree_accept",
    "Different trees in one batch; accept rows are A wide, whatever N is.",
    tiers(
        grid(B=(3,), N=(17,), A=(4,), i=(0,)),
        [
            *grid(B=(2, 3, 4, 8), N=(12, 33), A=(3, 9), i=(0, 1)),
            *grid(B=(32,), N=(12, 33, 64), A=(8,), i=(0,)),
        ],
        grid(B=(32, 128), N=(65, 257), A=(8, 16), i=(0, 1)),
    ),
    _ragged,
)

PADDING = Family(
    "padding",
    "tree_accept",
    "Slots past node_count hold matching tokens and links into the live tree: nothing there may count.",
    tiers(grid(N=(12,), sleep=("none", "first")), grid(N=(12, 33, 64), sleep=("none", *PLACES))),
    _padding,
)

INACTIVE = Family(
    "inactive",
    "tree_accept",
    "Requests with node_count 0 at every place of the batch.",
    tiers(grid(B=(3,), at=("middle",)), grid(B=(3, 8), at=(*PLACES, "all"))),
    _inactive,
)
