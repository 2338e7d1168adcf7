"""tree_build: pairs of cases, one batch in two orders."""

from __future__ import annotations

from harness.cases.blocks.plans import grid
from harness.cases.blocks.two_orders import SIDES, in_two_orders
from harness.cases.tree_build.batch import RAGGED

RELATED = in_two_orders(
    "tree_build",
    RAGGED,
    grid(B=(3,), budget=(9,), side=SIDES),
    grid(B=(3, 7), budget=(20, 40, 64), side=SIDES),
)
