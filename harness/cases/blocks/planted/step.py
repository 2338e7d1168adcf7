"""One step of a planted case: tree, plan of tokens, right and wrong attention, head, accept, commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import references
from harness.allowance import allowed_out
from harness.case import AnyArray
from harness.cases.blocks.attention.rows import Rows
from harness.cases.blocks.paging import rows as pool_rows
from harness.cases.blocks.planted.centroid_head import Head
from harness.cases.blocks.planted.proof import Live, Proof, prove
from harness.cases.blocks.planted.wrong_inputs import Problem
from harness.cases.blocks.shapes import follow
from harness.draw import Draw
from references import bf16_to_float64


@dataclass
class Run:
    """What stays and what moves on from step to step."""

    rows: Rows
    scale: float
    layer: int
    nodes: int
    depth_limit: int
    page_slots: int
    table: AnyArray
    stop: AnyArray
    pool: AnyArray
    uncommitted: AnyArray | None = None  # the pool before the last commit
    branched: bool = False  # some tree was not a chain

    def embed(self, build: dict[str, AnyArray], state: dict[str, AnyArray], **other: AnyArray) -> Any:
        """``q`` and ``kv`` of planted_embed, with some inputs replaced."""
        given = {
            "node_token": build["node_token"],
            "position": build["position"],
            "node_count": build["node_count"],
            "prefix_len": state["prefix_len"],
            "block_table": self.table,
            "kv": self.pool,
        }
        return references.planted_embed(**{**given, **other}, Hq=self.rows.Hq, Dk=self.rows.Dk)

    def problem(
        self, embedded: dict[str, AnyArray], b: int, prefix: int, sees: AnyArray, layer: int
    ) -> Problem:
        """The attention of request ``b`` over the rows that ``embedded`` left in the pool."""
        count = len(sees)
        at = pool_rows(self.table, b, 0, prefix + count + 1, self.page_slots)
        kv = bf16_to_float64(embedded["kv"][layer].reshape(-1, self.rows.R)[at])
        return Problem(self.rows, self.scale, prefix, bf16_to_float64(embedded["q"][b, :count]), kv, sees)


def step(
    draw: Draw, run: Run, given: dict[str, AnyArray], state: dict[str, AnyArray], stops: bool
) -> tuple[Head, Proof, dict[str, AnyArray]] | None:
    """Head, proof and next state of one step; the run's pool moves on."""
    root, prefix = state["root_token"], state["prefix_len"]
    build = references.tree_build(**given, root_token=root, prefix_len=prefix, budget=run.nodes - 1)
    live = np.flatnonzero(build["node_count"]).tolist()
    predict = np.full(build["node_token"].shape, -1, np.int32)
    for b in live:
        count = int(build["node_count"][b])
        parents = build["node_parent"][b, :count].astype(np.int64)
        run.branched |= bool((parents != np.arange(count) - 1).any())
        predict[b, :count] = follow(draw, parents, build["node_token"][b, :count].astype(np.int64), 70)

    def accept(tokens_after: AnyArray) -> dict[str, AnyArray]:
        return references.tree_accept(
            node_token=build["node_token"],
            next_token=build["next_token"],
            next_sibling=build["next_sibling"],
            target_predict=tokens_after,
            node_count=build["node_count"],
            stop_token=run.stop,
            token_limit=state["token_limit"],
            depth_limit=run.depth_limit,
        )

    if live and (accept(predict)["accept_len"] <= 0).all():
        return None  # a step in which no draft is accepted shows little
    if stops:  # the second token that request 0 emits
        emitted = accept(predict)["out_token"][0]
        run.stop = emitted[: int((emitted != -1).sum())][:2][-1:].copy()
    embedded = run.embed(build, state)
    requests = _live(run, build, state, embedded, predict, live)
    made = prove(requests, predict, accept) if live else (_nobody(run), Proof())
    if made is None:
        return None
    accepted = accept(predict)
    committed = references.kv_commit(
        kv=embedded["kv"],
        block_table=run.table,
        prefix_len=prefix,
        accept_index=accepted["accept_index"],
        accept_len=accepted["accept_len"],
    )
    run.uncommitted, run.pool = embedded["kv"], committed["kv"]
    following = references.next_state(
        bonus_token=accepted["bonus_token"],
        out_token=accepted["out_token"],
        finished=accepted["finished"],
        new_len=committed["new_len"],
        token_limit=state["token_limit"],
    )
    return *made, following


def _live(
    run: Run,
    build: dict[str, AnyArray],
    state: dict[str, AnyArray],
    embedded: dict[str, AnyArray],
    predict: AnyArray,
    live: list[int],
) -> list[Live]:
    """The live requests with their variants: wrong positions, rows not written, moved or of another layer."""
    prefix, position = state["prefix_len"], build["position"]
    slot = prefix[:, None] + np.arange(run.nodes, dtype=np.int32)
    wrong = {
        "position_plus_1": run.embed(build, state, position=position + np.int32(1)),
        "position_is_slot": run.embed(build, state, position=slot),
        "position_is_depth": run.embed(build, state, position=build["node_depth"]),
        "tail_not_written": {"q": embedded["q"], "kv": run.pool},
    }
    if run.uncommitted is not None:
        wrong["not_committed"] = run.embed(build, state, kv=run.uncommitted)
    attention = references.verify_attn(
        q=embedded["q"],
        kv=embedded["kv"][run.layer],
        block_table=run.table,
        prefix_len=prefix,
        node_count=build["node_count"],
        tree_mask=build["tree_mask"],
        Hkv=run.rows.Hkv,
        Dv=run.rows.Dv,
        scale=run.scale,
    )
    allowed = allowed_out(attention["out"], attention["out_m"], attention["lse_d"])
    requests = []
    for b in live:
        count, length = int(build["node_count"][b]), int(prefix[b])
        sees = references.unpack_mask(build["tree_mask"][b, :count], count)
        variants = {name: run.problem(other, b, length, sees, run.layer) for name, other in wrong.items()}
        if run.layer:
            variants["other_layer"] = run.problem(embedded, b, length, sees, 0)
        right = run.problem(embedded, b, length, sees, run.layer)
        bound = allowed[b, :count].reshape(count, -1)
        requests.append(Live(b, right, variants, bound, predict[b, :count]))
    return requests


def _nobody(run: Run) -> Head:
    """A head for a step in which every request is inactive."""
    width = run.rows.Hq * run.rows.Dv
    return Head(np.zeros((1, width), np.uint16), np.zeros(1, np.float32), np.full(1, -1, np.int32))
