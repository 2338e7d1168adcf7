"""tree_accept: bad links at the edges: a root alone, lone and all-bad batches, two faults at once."""

from __future__ import annotations

from harness.case import materialize
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.walks import accept_inputs
from harness.cases.tree_accept.invalid import SLOTS, edited, whole_request
from harness.draw import Draw

KINDS = ("alone", "whole_batch", "lone_root_child", "lone_root_sibling", "lone_root_past", "two_faults")


def _links(params: Params, draw: Draw) -> Draft:
    kind = str(params["bad"])
    batch = {"alone": 1, "whole_batch": 3}.get(kind, 2)
    inputs = accept_inputs([whole_request(draw) for _ in range(batch)], SLOTS)
    faults = [("next_sibling", (b, 4), 1) for b in range(batch)]  # a ring of siblings
    if kind == "two_faults":
        faults = [("next_sibling", (0, 4), 1), ("next_token", (0, 8), 99)]
    if kind.startswith("lone_root"):
        name, to = {
            "lone_root_child": ("next_token", 0),
            "lone_root_sibling": ("next_sibling", 0),
            "lone_root_past": ("next_token", 1),
        }[kind]
        faults = [(name, (0, 0), to)]
        for link in ("next_token", "next_sibling"):
            rows = materialize(inputs[link]).copy()
            rows[0] = -1
            inputs[link] = rows
        inputs["node_count"] = edited(materialize(inputs["node_count"]), 0, 1)
    for name, index, to in faults:
        inputs[name] = edited(materialize(inputs[name]), index, to)
    flags = ("bad_links", *(("neighbours_good",) if batch == 2 else ()))
    return Draft(inputs, {"depth_limit": 8}, flags, "invalid")


BAD_LINKS = Family(
    "invalid_edges",
    "tree_accept",
    "A root alone with links, a batch of one or of bad requests only, two faults in one request.",
    tiers((), grid(bad=KINDS)),
    _links,
)
