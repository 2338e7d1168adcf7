"""greedy_step over four to six steps on one pool, one workspace and, on a device, one captured graph.

Where a request ends, the next step may hold another one in its place, so that any step can follow any
other. Scenarios: ``accepts`` (3, 0, 1, 2, 0, 3 drafts, another order for each request), ``live`` (a batch of
4 with 4, 1, 3, 0, 4, 2 live requests), ``again`` (trees, chains, then the trees again with the same inputs),
``values`` and ``model`` (each step changes one array of the step before).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import references
from harness.case import AnyArray, Recipe
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.paging import pages
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.shapes import depths, path_to, steer
from harness.cases.blocks.short_rows import cut
from harness.cases.blocks.topk import VOCABULARY, grid_rows, tokens
from harness.cases.blocks.walks import FRESH
from harness.cases.greedy_step.synthesized import LAYOUTS, STOP, Layout, attention_rows, predictions
from harness.contract import NO_LIMIT
from harness.draw import Draw

Arrays = dict[str, AnyArray]
DEPTH, WIDTH = 5, 4
ACCEPTS = (3, 0, 1, 2, 0, 3)
LIVE = (0b1111, 0b0010, 0b1101, 0b0000, 0b1111, 0b1001)  # bit b: request b is live in this step
CHANGES = {
    "values": ("", "topk_logprob", "prefix_len", "topk_token", "root_token", "token_limit"),
    "model": ("", "q", "target_predict", "tail"),
}
SCENARIOS = ("accepts", "live", "again", "values", "model")


class Steps:
    """What the steps of one case share, and the steps so far."""

    def __init__(self, draw: Draw, params: Params) -> None:
        self.draw, self.layout = draw, LAYOUTS[str(params["layout"])]
        self.batch, self.nodes, self.layers = (int(params[k]) for k in ("B", "N", "Y"))
        self.stop = np.array([STOP], np.int32)
        self.first = (8 + draw.below(20, self.batch)).astype(np.int32)
        self.stored: list[Arrays] = []

    def state(self) -> Arrays:
        """New requests in every place, at a prefix that no step has written into."""
        prefix = self.first - self.draw.below(4, self.batch).astype(np.int32)
        root = self.draw.below(VOCABULARY, self.batch).astype(np.int32)
        return {
            "root_token": root,
            "prefix_len": prefix,
            "token_limit": np.full(self.batch, NO_LIMIT, np.int32),
        }

    def rows(self, chain: bool = False) -> Arrays:
        """Candidates of every request: trees, or chains in the same shape."""
        shape = (self.batch, DEPTH, WIDTH)
        logprob = grid_rows(self.draw, shape, "decisive")
        if chain:
            logprob = np.stack([cut(self.draw, rows, "single") for rows in logprob])
        return {"topk_logprob": logprob, "topk_token": tokens(self.draw, shape)}

    def build(self, given: Arrays) -> Arrays:
        """The trees of a step."""
        names = ("topk_logprob", "topk_token", "root_token", "prefix_len")
        return references.tree_build(**{n: given[n] for n in names}, budget=self.nodes - 1)

    def led(self, given: Arrays, drafts: Sequence[int | None], last: Sequence[int]) -> Arrays:
        """Predictions that accept ``drafts`` nodes (None: any) of each request and then say ``last``."""
        build = self.build(given)
        predict = predictions(self.draw, build, None, 0)
        for b in np.flatnonzero(build["node_count"]).tolist():
            count = int(build["node_count"][b])
            depth = depths(build["node_parent"][b, :count])
            deepest = int(depth.max())
            asked = drafts[b]
            want = self.draw.integer(0, deepest) if asked is None else min(asked, deepest)
            end = int(self.draw.choice(np.flatnonzero(depth == want).tolist()))
            path = path_to(build["node_parent"][b, :count], end)
            steer(predict[b], build["node_token"][b], path, last[b])
        return {"target_predict": predict}

    def model(self, given: Arrays) -> Arrays:
        """Queries and rows of a step."""
        count = self.build(given)["node_count"]
        return attention_rows(self.draw, count, self.layout, self.nodes, self.layers)

    def accept(self, given: Arrays) -> tuple[Arrays, Arrays]:
        """Answer of a step and the state after it."""
        build = self.build(given)
        links = {n: build[n] for n in ("node_token", "next_token", "next_sibling", "node_count")}
        rest = {n: given[n] for n in ("target_predict", "token_limit")}
        accept: Any = references.tree_accept(**links, **rest, stop_token=self.stop, depth_limit=DEPTH)
        new_len = given["prefix_len"] + accept["accept_len"] + 1
        carried = {n: accept[n] for n in ("bonus_token", "out_token", "finished")}
        return accept, references.next_state(**carried, new_len=new_len, token_limit=given["token_limit"])


def _accepts(run: Steps) -> bool:
    state = run.state()
    for u in range(len(ACCEPTS)):
        given = {**run.rows(), **state}
        drafts = [ACCEPTS[(u + b) % len(ACCEPTS)] for b in range(run.batch)]
        given |= run.led(given, drafts, [FRESH + u] * run.batch)
        run.stored.append({**given, **run.model(given)})
        accept, state = run.accept(given)
        if accept["accept_len"].tolist() != drafts:
            return False  # a tree too shallow for the plan
    return True


def _live(run: Steps) -> bool:
    """A request that is not live in the next step ends in this one; a place that was empty gets a new one."""
    state = run.state()
    for u, live in enumerate(LIVE):
        here = np.array([live >> b & 1 for b in range(run.batch)], np.bool_)
        fresh = run.state()
        stays = here & (state["root_token"] != -1)
        state = {name: np.where(stays, state[name], fresh[name]) for name in state}
        state["root_token"] = np.where(here, state["root_token"], -1).astype(np.int32)
        given = {**run.rows(), **state}
        after = LIVE[u + 1] if u + 1 < len(LIVE) else 0
        last = [FRESH + u if after >> b & 1 else STOP for b in range(run.batch)]
        given |= run.led(given, [None] * run.batch, last)
        run.stored.append({**given, **run.model(given)})
        _, state = run.accept(given)
    return True


def _again(run: Steps) -> bool:
    """A, B, A, B, A: the steps of one letter have the same inputs."""
    kinds: list[Arrays] = []
    state = run.state()
    for chain in (False, True):
        given = {**run.rows(chain), **state}
        given |= run.led(given, [2] * run.batch, [STOP if chain else -1] * run.batch)
        kinds.append({**given, **run.model(given)})
    run.stored = [kinds[u % 2] for u in range(5)]
    return all((run.accept(kind)[1]["root_token"] == -1).all() for kind in kinds)


def _changes(run: Steps, names: Sequence[str]) -> bool:
    """Every request accepts its best first draft and ends at its limit of two tokens, whatever changes."""
    given = {**run.rows(), **run.state(), "token_limit": np.full(run.batch, 2, np.int32)}
    given |= run.led(given, [2] * run.batch, [FRESH] * run.batch)
    given["target_predict"][:, 0] = given["topk_token"][:, 0, 0]
    given |= run.model(given)
    for name in names:
        given = {**given, **_changed(run, given, name)}
        run.stored.append(given)
        if not (run.accept(given)[0]["finished"] == 1).all():
            return False
    return True


def _changed(run: Steps, given: Arrays, name: str) -> Arrays:
    if name == "topk_logprob":
        return {name: run.rows()[name]}
    if name == "topk_token":  # all but the drafts of the first level, of which one is accepted
        token = run.rows()[name]
        token[:, 0] = given[name][:, 0]
        return {name: token}
    if name == "root_token":
        return {name: given[name] ^ np.int32(1)}
    if name == "prefix_len":
        return {name: given[name] - np.int32(1)}
    if name == "token_limit":
        return {name: given[name] - np.int32(1)}
    if name == "target_predict":
        predict = run.led(given, [1] * run.batch, [FRESH + 1] * run.batch)[name]
        predict[:, 0] = given[name][:, 0]
        return {name: predict}
    if name in ("q", "tail"):
        return {name: run.model(given)[name]}
    return {}  # the first step changes nothing


def _make(params: Params, draw: Draw) -> Draft | None:
    scenario, slots = str(params["scenario"]), int(params["S"])
    run = Steps(draw, params)
    made = {"accepts": _accepts, "live": _live, "again": _again}
    if not (made[scenario](run) if scenario in made else _changes(run, CHANGES[scenario])):
        return None
    inputs = {name: np.stack([step[name] for step in run.stored]) for name in run.stored[0]}
    longest = np.where(inputs["root_token"] != -1, inputs["prefix_len"], 0).max(axis=0)
    table, count = pages(draw, longest.tolist(), run.nodes, slots)
    layout: Layout = run.layout
    pool = Recipe("unit_bf16", draw.integer(0, 2**32 - 1), (run.layers, count, slots, layout.R))
    return Draft(
        {**inputs, "stop_token": run.stop, "block_table": table, "kv": pool},
        {
            "budget": run.nodes - 1, "depth_limit": DEPTH, "Hkv": layout.Hkv, "Dv": layout.Dv,
            "scale": layout.scale, "layer": run.layers - 1,
        },
        _flags(params),
    )  # fmt: skip


def _flags(params: Params) -> tuple[str, ...]:
    flags = {
        "accepts": ["changing_accepts"],
        "live": ["changing_live", "inactive", "finishes", "stop_token"],
        "again": ["same_again", "finishes", "no_prediction", "no_candidate"],
        "values": ["one_change", "token_limit", "finishes"],
        "model": ["one_change", "token_limit", "finishes"],
    }[str(params["scenario"])]
    flags += ["several_steps", str(params["layout"])[:3]]
    flags += ["other_layer"] if int(params["Y"]) > 1 else []
    return tuple(flags)


SEQUENCES = Family(
    "sequences",
    "greedy_step",
    "Four to six steps in one graph: other accepts, live requests, trees and single values in each step.",
    tiers(
        [
            *grid(scenario=("live",), layout=("gqa2x1",), B=(4,), N=(7,), Y=(1,), S=(4,)),
            *grid(scenario=("again", "values"), layout=("gqa2x1",), B=(2,), N=(7,), Y=(1,), S=(4,)),
        ],
        [
            *grid(scenario=SCENARIOS, layout=("gqa2x1", "gqa4x2"), B=(4,), N=(9,), Y=(2,), S=(4,)),
            *grid(scenario=SCENARIOS, layout=("mla1",), B=(4,), N=(9,), Y=(1,), S=(16,)),
            *grid(scenario=SCENARIOS, layout=("gqa6x2",), B=(4,), N=(17,), Y=(1,), S=(7,)),
        ],
    ),
    _make,
)
