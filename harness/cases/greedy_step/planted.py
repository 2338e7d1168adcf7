"""greedy_step, planted: tokens and positions make queries and rows, attention decides what is accepted.

No model and no synthesized prediction: the nearest-centroid head turns attention outputs into tokens. The
state between steps follows from the references; ``docs/planted.md`` explains the construction.
"""

from __future__ import annotations

import numpy as np

from harness.case import AnyArray, Recipe
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.paging import pages
from harness.cases.blocks.plans import grid, tiers
from harness.cases.blocks.planted.centroid_head import Head
from harness.cases.blocks.planted.proof import Proof
from harness.cases.blocks.planted.step import Run, step
from harness.cases.blocks.topk import VOCABULARY, grid_rows, tokens
from harness.contract import NO_LIMIT
from harness.draw import Draw

DEPTH, WIDTH = 5, 4  # candidates of each step
SCENARIOS = ("plain", "inactive", "stop", "limit")


def _make(params: Params, draw: Draw) -> Draft | None:
    rows, scenario = rows_named(str(params["rows"])), str(params["scenario"])
    batch, nodes, steps, slots, layers = (int(params[k]) for k in ("B", "N", "U", "S", "Y"))
    prefix = [int(params["P"]) + 3 * b for b in range(batch)]
    root = draw.below(VOCABULARY, batch).astype(np.int32)
    if scenario == "inactive":
        root[draw.integer(0, batch - 1)] = -1
    limit = np.full(batch, NO_LIMIT, np.int32)
    if scenario == "limit":
        limit[0] = steps
    # Mapped for every length that the steps can reach, and one slot more for a prefix that is off by one.
    reach = [(steps - 1) * (DEPTH + 1) + nodes + 1 if r != -1 else 0 for r in root.tolist()]
    table, count = pages(draw, prefix, reach, slots)
    base = Recipe("unit_bf16", draw.integer(0, 2**32 - 1), (layers, count, slots, rows.R))
    scale = rows.scale if rows.is_mla else float(np.float32(3.0 * rows.scale))
    run = Run(rows, scale, layers - 1, nodes, DEPTH, slots, table, np.zeros(0, np.int32), base.materialize())
    state = {"root_token": root, "prefix_len": np.array(prefix, np.int32), "token_limit": limit}
    stored: list[dict[str, AnyArray]] = []
    heads: list[Head] = []
    total = Proof()
    for u in range(steps):
        given = {
            "topk_logprob": grid_rows(draw, (batch, DEPTH, WIDTH), "mixed"),
            "topk_token": tokens(draw, (batch, DEPTH, WIDTH)),
        }
        stored.append({**given, **state})
        made = step(draw, run, given, state, scenario == "stop" and u == 0)
        if made is None:
            return None
        head, proof, state = made
        heads.append(head)
        total += proof
    if not run.branched:
        return None  # chains all over: a causal mask would be right
    tallest = max(len(head.head_bias) for head in heads)
    heads = [head.padded(tallest) for head in heads]
    return Draft(
        inputs={
            **{name: np.stack([given[name] for given in stored]) for name in stored[0]},
            "stop_token": run.stop,
            "block_table": table,
            "kv": base,
            **{n: np.stack([getattr(h, n) for h in heads]) for n in ("head", "head_bias", "head_token")},
        },
        scalars={
            "budget": nodes - 1, "depth_limit": DEPTH, "Hkv": rows.Hkv, "Dv": rows.Dv, "scale": scale,
            "layer": layers - 1,
        },
        flags=_flags(params),
        notes={name: float(value) for name, value in vars(total).items()},
    )  # fmt: skip


def _flags(params: Params) -> tuple[str, ...]:
    scenario, several = str(params["scenario"]), int(params["U"]) > 1
    flags = {"plain": [], "inactive": ["inactive"], "stop": ["stop_token"], "limit": ["token_limit"]}[
        scenario
    ]
    flags += ["planted", "mla" if str(params["rows"]).startswith("mla") else "gqa"]
    flags += ["several_steps"] if several else []
    flags += ["finishes"] if several and scenario in ("stop", "limit") else []
    flags += ["zero_prefix"] if int(params["P"]) == 0 else []
    flags += ["other_layer"] if int(params["Y"]) > 1 else []
    return tuple(flags)


# Rows with one KV head are mla here: greedy_step takes the key width of planted rows from R alone.
def _axes(rows: str, prefix: tuple[int, ...], nodes: int, **more: int | str) -> list[Params]:
    """Cases over ``prefix``; one plain step of one request in pages of 16 and one layer unless said."""
    axes: dict[str, int | str] = {"B": 1, "U": 1, "S": 16, "Y": 1, "scenario": "plain", **more}
    return grid(rows=(rows,), P=prefix, N=(nodes,), **{name: (value,) for name, value in axes.items()})


_SMOKE = [
    *_axes("mla1", (9,), 5),
    *_axes("gqa2x2d32v32", (17,), 5, B=2, U=3, S=7, Y=2),
    *_axes("gqa2x2d16v16", (4,), 5, B=3, U=2, scenario="inactive"),
    *_axes("gqa2x2d16v16", (0,), 5, U=2, scenario="stop"),
]
_STANDARD = [
    *_axes("mla1", (0, 1, 5, 15, 17, 31, 32), 9, B=2, S=7),
    *_axes("mla1", (33, 64, 128, 200, 300), 9, S=64),
    *_axes("mla1", (7, 32, 150), 17),
    *_axes("mla2", (0, 8, 32, 100), 9, S=33),
    *_axes("mla2", (16,), 17, B=2, Y=2),
    *(c for s in SCENARIOS for c in _axes("mla1", (3, 20), 9, B=2, U=3, S=5, scenario=s)),
    *_axes("gqa2x2d64v64", (0, 9, 32, 64, 257), 12, B=2),
    *_axes("gqa2x2d32v64", (0, 16, 33), 12, B=2, S=1),
    *_axes("gqa4x2d64v32", (2, 30, 90), 12),
    *(c for s in SCENARIOS for c in _axes("gqa2x2d64v64", (11, 28), 9, B=3, U=3, Y=2, scenario=s)),
]

PLANTED = Family(
    "planted",
    "greedy_step",
    "whole steps without a model: a wrong mask, length, scale or position changes what is accepted",
    tiers(_SMOKE, _STANDARD),
    _make,
)
