"""tree_accept: a path that ends without a prediction where one more token would end the request."""

from __future__ import annotations

from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.walks import FRESH, accept_inputs
from harness.cases.tree_accept.limits import SPINE, spine
from harness.draw import Draw

ENDS = {
    "last_token": ("token_limit",),
    "stop_list": ("stop_token",),
    "both": ("stop_token", "token_limit"),
}


def _none(params: Params, draw: Draw) -> Draft:
    """Both requests accept `SPINE` drafts; the first predicts nothing after them.

    ``last_token``: the limit leaves room for one token more. ``stop_list``: the stop tokens are padded with
    -1. Neither ends the first request, because no token was emitted.
    """
    ends = ENDS[str(params["none"])]
    one, path = spine(draw, 13)
    other, _ = spine(draw, 13)
    one.predict[path[-1]] = -1
    if "token_limit" in ends:
        one.limit = other.limit = SPINE + 1
    stop = (FRESH + 100, -1, -1) if "stop_token" in ends else ()
    return Draft(accept_inputs([one, other], 13, stop), {"depth_limit": 8}, ("no_prediction", *ends))


NONE = Family(
    "none_at_the_end",
    "tree_accept",
    "No prediction after the last draft, where one token more, or -1 as a stop token, would end the request.",
    tiers((), grid(none=tuple(ENDS), i=(0, 1))),
    _none,
)
