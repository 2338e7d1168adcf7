"""tree_accept: pairs of cases, one batch in two orders."""

from __future__ import annotations

from harness.cases.blocks.plans import grid
from harness.cases.blocks.two_orders import SIDES, in_two_orders
from harness.cases.tree_accept.batch import RAGGED

RELATED = in_two_orders(
    "tree_accept",
    RAGGED,
    grid(B=(3,), N=(12,), A=(5,), side=SIDES),
    grid(B=(3, 7), N=(20, 33), A=(5, 9), side=SIDES),
)
