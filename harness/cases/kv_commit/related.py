"""kv_commit: pairs of cases, one batch in two orders."""

from __future__ import annotations

from harness.cases.blocks.plans import grid
from harness.cases.blocks.two_orders import SIDES, in_two_orders
from harness.cases.kv_commit.moves import BATCH

RELATED = in_two_orders(
    "kv_commit",
    BATCH,
    [],
    grid(B=(2, 4), S=(1, 7), Y=(2,), sleep=("none",), side=SIDES),
)
