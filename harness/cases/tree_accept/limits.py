"""tree_accept: stop tokens and the token limit, anywhere on the emitted run."""

from __future__ import annotations

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.shapes import I64, path_to, steer, tree
from harness.cases.blocks.walks import FRESH, Walk, accept_inputs, walk
from harness.contract import NO_LIMIT
from harness.draw import Draw

SPINE = 5  # accepted drafts of a request that nothing cuts short
STOP_AT = ("first", "middle", "last", "bonus", "several", "root", "off_path", "absent")
LIMITS = ("zero", "one", "two", "drafts", "emitted", "roomy")


def spine(draw: Draw, count: int) -> tuple[Walk, list[int]]:
    """A request whose target follows a path of `SPINE` drafts with side branches; the path, root first."""
    parents: I64 = tree(draw, "random", count)
    parents[1 : 2 * SPINE + 1] = [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]  # the even nodes are the spine
    path = path_to(parents, 2 * SPINE)
    one = walk(draw, parents)
    steer(one.predict, one.token, path, FRESH + draw.integer(0, 9))
    return one, path


def emitted(one: Walk, path: list[int]) -> list[int]:
    """Tokens of the whole run: the drafts, then the bonus."""
    return [int(one.token[node]) for node in path[1:]] + [int(one.predict[path[-1]])]


def stops(draw: Draw, at: str, size: int, run: list[int], root: int) -> list[int]:
    """``size`` stop tokens, one or more of which stand where ``at`` says; the others occur nowhere."""
    never = [FRESH + 100 + k for k in range(size)]
    places = {"first": [0], "middle": [2], "last": [SPINE - 1], "bonus": [SPINE], "several": [3, 1, SPINE]}
    wanted = [run[place] for place in places.get(at, [])] + ([root] if at == "root" else [])
    chosen = [*wanted[:size], *never][:size]
    return [chosen[k] for k in draw.permutation(size).tolist()]


def _stop(params: Params, draw: Draw) -> Draft:
    at, size, count = str(params["at"]), int(params["T"]), int(params["n"])
    one, path = spine(draw, count)
    stop = stops(draw, at, size, emitted(one, path), int(one.token[0]))
    if at == "off_path":
        stop[0] = int(one.token[1])
    other, _ = spine(draw, count)  # shares the stop list, and is not stopped
    return Draft(accept_inputs([one, other], count, stop), {"depth_limit": 8}, ("stop_token",))


def _limit(params: Params, draw: Draw) -> Draft:
    """The token limit, alone or with a stop token one place before, at or behind its last token."""
    one, path = spine(draw, 17)
    one.limit = {"zero": 0, "one": 1, "two": 2, "drafts": SPINE, "emitted": SPINE + 1, "roomy": SPINE + 2}[
        str(params["limit"])
    ]
    other, _ = spine(draw, 17)
    other.limit = draw.choice((NO_LIMIT, 3))
    run = emitted(one, path)
    last = one.limit - 1 + {"none": 99, "before": -1, "same": 0, "behind": 1}[str(params["stop"])]
    stop = [run[last]] if 0 <= last < len(run) else []
    flags = ("token_limit", *(("stop_token", "stop_and_limit") if stop else ()))
    return Draft(accept_inputs([one, other], 17, stop), {"depth_limit": 8}, flags)


STOP = Family(
    "stop",
    "tree_accept",
    "0 to 8 stop tokens at every place of the run: it is cut behind the first, and the root never counts.",
    tiers(
        grid(at=("middle", "bonus", "root"), T=(2,), n=(13,)),
        [*grid(at=STOP_AT, T=(1, 2, 8), n=(13,)), *grid(at=("absent",), T=(0,), n=(13,))],
    ),
    _stop,
)

LIMIT = Family(
    "limit",
    "tree_accept",
    "token_limit 0, 1, 2, at the drafts, at the bonus and beyond, with a stop token near the same place.",
    tiers(
        [*grid(limit=("zero", "two", "emitted"), stop=("none",)), *grid(limit=("two",), stop=("same",))],
        grid(limit=LIMITS, stop=("none", "before", "same", "behind")),
    ),
    _limit,
)
