"""The attention problems inside a case: one for each live request, and for each step of greedy_step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.case import ROW_AXES, AnyArray, Case, Sampled, known, materialize
from harness.judge.rows import sample_of
from references import bf16_to_float64, kv_commit, planted_embed, unpack_mask

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Attention:
    """One request with n live nodes: its tail keys' logits and values, and what is expected of r rows.

    ``node`` [r] is the node of each row: all of them in order, or, where a case stores a sample, those of
    its rows, of one head each (Hq 1). ``sees`` bool [r,n], ``logits`` [r,Hq,n] (scaled, of every tail key,
    seen or not), ``values`` [n,Hkv,Dv]; expected ``out`` and ``m`` [r,Hq,Dv], ``lse`` and ``d`` [r,Hq],
    ``visible`` int64 [r]. Floats are float64.
    """

    name: str
    prefix: int
    node: npt.NDArray[np.int64]
    sees: npt.NDArray[np.bool_]
    logits: Floats
    values: Floats
    out: Floats
    m: Floats
    lse: Floats
    d: Floats
    visible: npt.NDArray[np.int64]
    sampled: bool = False

    def head_values(self) -> Iterator[Floats]:
        """Values [n,Dv] of the KV head of each query head."""
        share = self.out.shape[1] // self.values.shape[1]
        for h in range(self.out.shape[1]):
            yield self.values[:, h // share]


def attention_steps(case: Case) -> Iterator[Attention]:
    """Every attention problem of a verify_attn or greedy_step case. ValueError for another kernel."""
    inputs = {name: materialize(value) for name, value in case.inputs.items()}
    expected = {name: known(value) for name, value in case.expected.items()}
    sample = sample_of(case.expected)
    if case.kernel == "verify_attn" and sample is not None:
        yield from _sampled({**inputs, **expected}, sample, float(np.float32(case.scalars["scale"])))
    elif case.kernel == "verify_attn":
        yield from _requests("", {**inputs, **expected}, inputs["q"], inputs["kv"], case.scalars)
    elif case.kernel == "greedy_step":
        yield from _steps(inputs, expected, case.scalars)
    else:
        raise ValueError(f"{case.case_id}: {case.kernel} has no attention")


def _steps(
    inputs: Mapping[str, AnyArray], expected: Mapping[str, AnyArray], scalars: Mapping[str, int | float]
) -> Iterator[Attention]:
    """The steps in order; the pool is carried through tail rows and commits."""
    pool = inputs["kv"].copy()
    layers, _, page_slots, width = pool.shape
    for u in range(len(inputs["root_token"])):
        step = {name: array[u] for name, array in expected.items() if name != "kv"}
        step["prefix_len"], step["block_table"] = inputs["prefix_len"][u], inputs["block_table"]
        if "q" in inputs:
            q = inputs["q"][u]
            for b in np.flatnonzero(inputs["root_token"][u] != -1).tolist():
                slots = int(step["prefix_len"][b]) + np.arange(q.shape[1])
                pool.reshape(layers, -1, width)[:, _rows(step["block_table"], b, slots, page_slots)] = inputs[
                    "tail"
                ][u][:, b]
        else:
            heads = inputs["head"].shape[2] // int(scalars["Dv"])
            groups = int(scalars["Hkv"])
            embedded = planted_embed(
                node_token=step["node_token"],
                position=step["position"],
                node_count=step["node_count"],
                prefix_len=step["prefix_len"],
                block_table=step["block_table"],
                kv=pool,
                Hq=heads,
                Dk=width if groups == 1 else width // groups - int(scalars["Dv"]),
            )
            q, pool = embedded["q"], embedded["kv"]
        yield from _requests(f"step {u} ", step, q, pool[int(scalars["layer"])], scalars)
        pool = kv_commit(
            kv=pool,
            block_table=step["block_table"],
            prefix_len=step["prefix_len"],
            accept_index=step["accept_index"],
            accept_len=step["accept_len"],
        )["kv"]


def _requests(
    where: str,
    arrays: Mapping[str, AnyArray],
    q: AnyArray,
    kv: AnyArray,
    scalars: Mapping[str, int | float],
) -> Iterator[Attention]:
    """The live requests of one call; ``kv`` bf16 bits [G,S,R] with the tail rows in place."""
    page_slots, width = kv.shape[1:]
    groups, dv, dk = int(scalars["Hkv"]), int(scalars["Dv"]), q.shape[-1]
    scale = float(np.float32(scalars["scale"]))
    for b in np.flatnonzero(arrays["node_count"] > 0).tolist():
        live, prefix = int(arrays["node_count"][b]), int(arrays["prefix_len"][b])
        at = _rows(arrays["block_table"], b, prefix + np.arange(live), page_slots)
        row = bf16_to_float64(kv.reshape(-1, width)[at])
        keys = row[:, : groups * dk].reshape(live, groups, dk)
        values = row[:, None, :dv] if width == dk else row[:, groups * dk :].reshape(live, groups, dv)
        queries = bf16_to_float64(q[b, :live]).reshape(live, groups, -1, dk)
        logits = np.stack([queries[:, g] @ keys[:, g].T for g in range(groups)], axis=1)
        yield Attention(
            name=f"{where}request {b}",
            prefix=prefix,
            node=np.arange(live),
            sees=unpack_mask(arrays["tree_mask"][b, :live], live),
            logits=scale * logits.reshape(live, -1, live),
            values=values,
            out=arrays["out"][b, :live].astype(np.float64),
            m=arrays["out_m"][b, :live].astype(np.float64),
            lse=arrays["lse"][b, :live].astype(np.float64),
            d=arrays["lse_d"][b, :live].astype(np.float64),
            visible=arrays["visible"][b, :live].astype(np.int64),
        )


def _sampled(arrays: Mapping[str, AnyArray], sample: Sampled, scale: float) -> Iterator[Attention]:
    """The live requests of which some rows of mla are stored."""
    request, node, head = np.unravel_index(sample.rows, sample.shape[:ROW_AXES])
    page_slots, width = arrays["kv"].shape[1:]
    for b in np.unique(request).tolist():
        live, prefix = int(arrays["node_count"][b]), int(arrays["prefix_len"][b])
        mine = np.flatnonzero((request == b) & (node < live))
        if len(mine) == 0:
            continue
        at = _rows(arrays["block_table"], b, prefix + np.arange(live), page_slots)
        keys = bf16_to_float64(arrays["kv"].reshape(-1, width)[at])
        queries = bf16_to_float64(arrays["q"][b, node[mine], head[mine]])
        out, m, lse, d = (
            arrays[name][mine].astype(np.float64)[:, None] for name in ("out", "out_m", "lse", "lse_d")
        )
        yield Attention(
            name=f"request {b}",
            prefix=prefix,
            node=node[mine],
            sees=unpack_mask(arrays["tree_mask"][b, node[mine]], live),
            logits=scale * (queries @ keys.T)[:, None],
            values=keys[:, None, : sample.shape[-1]],
            out=out,
            m=m,
            lse=lse,
            d=d,
            visible=arrays["visible"][b, node[mine]].astype(np.int64),
            sampled=True,
        )


def _rows(
    block_table: AnyArray, request: int, slots: npt.NDArray[np.int64], page_slots: int
) -> npt.NDArray[np.int64]:
    """Pool rows of the logical ``slots`` of one request."""
    page = block_table[request, slots // page_slots].astype(np.int64)
    result: npt.NDArray[np.int64] = page * page_slots + slots % page_slots
    return result
