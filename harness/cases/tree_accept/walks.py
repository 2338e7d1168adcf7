"""tree_accept: trees of every shape, and predictions that lead to a chosen place."""

from __future__ import annotations

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.shapes import SHAPES, best_first, children, depths, path_to, steer, tree
from harness.cases.blocks.walks import FRESH, Walk, accept_inputs, walk
from harness.draw import Draw
from harness.stacked import Asking

PATHS = (
    "none", "deepest", "last_child", "middle_child", "not_a_child", "later_match", "duplicates",
    "no_prediction", "gaps",
)  # fmt: skip


def _shapes(params: Params, draw: Draw) -> Asking[Draft]:
    count, shape = int(params["n"]), str(params["shape"])
    parents = (yield from best_first(draw, count)) if shape == "best" else tree(draw, shape, count)
    one = walk(draw, parents, int(params["follow"]))
    flags = {
        "root_only": count == 1,
        "chain": shape == "chain" and count > 1,
        "not_best_first": shape == "random",
    }
    return Draft(
        accept_inputs([one], count),
        {"depth_limit": min(count, 32)},
        ("walk", *(flag for flag, holds in flags.items() if holds)),
    )


def _path(params: Params, draw: Draw) -> Draft:
    """Two requests on trees of ``n`` nodes, both led to the place that ``path`` names."""
    kind, count = str(params["path"]), int(params["n"])
    walks = [lead(draw, kind, count) for _ in range(2)]
    flags = {
        "none": "nothing_accepted",
        "deepest": "all_accepted",
        "last_child": "late_sibling",
        "middle_child": "late_sibling",
        "not_a_child": "not_a_child",
        "later_match": "later_match",
        "duplicates": "duplicate_siblings",
        "no_prediction": "no_prediction",
        "gaps": "off_first_branch",
    }
    return Draft(accept_inputs(walks, count), {"depth_limit": 32}, (flags[kind],))


def lead(draw: Draw, kind: str, count: int) -> Walk:
    """A request whose predictions lead where ``kind`` says, on a tree of 9 nodes or more."""
    parents = tree(draw, "binary" if kind in ("deepest", "later_match") else "random", count)
    if kind in ("last_child", "middle_child"):
        parents[1:5] = 0  # four children of the root at least
    if kind in ("not_a_child", "duplicates", "gaps"):
        parents[1:7] = 0, 0, 1, 0, 2, 5  # 0-2-5-6; 1, 2 and 4 are siblings, 3 a cousin of 5
    one = walk(draw, parents)
    token, below = one.token, children(parents)
    if kind == "none":
        one.predict[0] = draw.choice((FRESH, int(token[0])))
    elif kind == "deepest":
        deep = int(depths(parents).argmax())
        steer(one.predict, token, path_to(parents, deep), FRESH)
    elif kind in ("last_child", "middle_child"):
        family = below[0]
        one.predict[0] = token[family[-1] if kind == "last_child" else family[len(family) // 2]]
    elif kind == "not_a_child":  # a sibling of 2, its grandchild, its cousin, its parent or itself
        steer(one.predict, token, [0, 2], int(token[draw.choice((1, 4, 6, 3, 0, 2))]))
    elif kind == "later_match":  # the root's prediction matches no child, but below it all agree
        deep = int(depths(parents).argmax())
        steer(one.predict, token, path_to(parents, deep), FRESH)
        one.predict[0] = FRESH + 1
    elif kind == "duplicates":  # two children of the root, and two of node 2, carry one token
        token[4] = token[2]
        token[6:][parents[6:] == 2] = token[5]
        steer(one.predict, token, [0, 2, 5], FRESH)
    elif kind == "no_prediction":  # nodes off the path carry -1, and so does the end of the path predict
        path = path_to(parents, draw.integer(0, count - 1))
        off = [node for node in range(count) if node not in path]
        token[off] = -1
        one.predict[off] = -1
        steer(one.predict, token, path, -1)
    else:
        steer(one.predict, token, [0, 2, 5], FRESH)
    return one


def _deeper(params: Params, draw: Draw) -> Draft:
    """Trees deeper than ``depth_limit``, every prediction on the deepest path."""
    limit, shape = int(params["limit"]), str(params["shape"])
    count = 2 * limit + 6
    walks = []
    for extra in (0, 3):
        parents = tree(draw, shape, count - extra)
        one = walk(draw, parents)
        deep = int(depths(parents).argmax())
        steer(one.predict, one.token, path_to(parents, deep), FRESH)
        walks.append(one)
    return Draft(accept_inputs(walks, count), {"depth_limit": limit}, ("deeper_than_limit",))


WALKS = Family(
    "walks",
    "tree_accept",
    "Trees of every shape; a share of the nodes follows one of its children.",
    tiers(
        [
            *grid(shape=("random",), n=(1,), follow=(70,)),
            *grid(shape=("chain", "comb", "best"), n=(9,), follow=(90,)),
        ],
        [
            *grid(shape=SHAPES, n=(2, 5, 17, 33, 64), follow=(70, 95)),
            *grid(shape=("best",), n=(129, 257, 513, 1025), follow=(95,)),
            *grid(shape=("chain", "star", "random"), n=(257, 1025), follow=(100,)),
        ],
        grid(shape=SHAPES, n=(512, 1024), follow=(70, 95)),
    ),
    _shapes,
)

CHOSEN = Family(
    "paths",
    "tree_accept",
    "Chosen paths: nothing, the deepest node, a late sibling, gaps; matches with a node that is no child.",
    tiers(grid(path=PATHS[1:], n=(9,), i=(0,)), grid(path=PATHS, n=(9, 33, 64), i=(0, 1))),
    _path,
)

DEEPER = Family(
    "deeper",
    "tree_accept",
    "Trees deeper than depth_limit: the walk ends there, and the bonus is the prediction at that node.",
    tiers(grid(limit=(2,), shape=("chain",)), grid(limit=(1, 2, 3, 7, 16, 31, 32), shape=("chain", "comb"))),
    _deeper,
)
