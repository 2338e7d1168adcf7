"""greedy_step: tree_build, verify_attn, tree_accept and kv_commit in a row, several steps of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._checks import Array, Dims, Outputs, pool_rows, whole
from .bf16 import float_to_bf16
from .kv_commit import kv_commit
from .planted import planted_embed, planted_head
from .tree_accept import tree_accept
from .tree_build import tree_build
from .verify_attn import verify_attn

NO_LIMIT = 2**31 - 1  # a token_limit that never ends a request


def greedy_step(
    *,
    topk_logprob: NDArray[np.float32],
    topk_token: NDArray[np.int32],
    root_token: NDArray[np.int32],
    prefix_len: NDArray[np.int32],
    token_limit: NDArray[np.int32],
    stop_token: NDArray[np.int32],
    block_table: NDArray[np.int32],
    kv: NDArray[np.uint16],
    budget: int,
    depth_limit: int,
    Hkv: int,
    Dv: int,
    scale: float,
    layer: int,
    q: NDArray[np.uint16] | None = None,
    tail: NDArray[np.uint16] | None = None,
    target_predict: NDArray[np.int32] | None = None,
    head: NDArray[np.uint16] | None = None,
    head_bias: NDArray[np.float32] | None = None,
    head_token: NDArray[np.int32] | None = None,
) -> Outputs:
    """U consecutive steps on one pool ``kv`` bf16 bits [Y,G,S,R] (not changed); attention reads ``layer``.

    In, with a leading axis U: ``topk_logprob``, ``topk_token`` [U,B,L,K], ``root_token``, ``prefix_len``,
    ``token_limit`` int32 [U,B] (see ``next_state``); without: ``stop_token`` int32 [T], ``block_table``
    int32 [B,M], mapped below prefix_len + N for every active request. One of two modes:

    - synthesized: ``q`` bf16 bits [U,B,N,Hq,Dk], ``tail`` bf16 bits [U,Y,B,N,R], ``target_predict`` int32
      [U,B,N]. All N tail rows of an active request are written at prefix_len.. before attention.
    - planted: ``head`` bf16 bits [U,V,D], ``head_bias`` float32 [U,V], ``head_token`` int32 [U,V].
      ``planted_embed`` writes q and the rows of the live nodes, ``planted_head`` reads the attention output
      rounded to bf16. Hq = D / Dv; Dk = R where Hkv is 1 (mla), else R / Hkv - Dv (gqa).

    Out, stacked over U: the outputs of ``tree_build`` (nine), ``verify_attn`` (``out``, ``lse``, ``out_m``,
    ``lse_d`` float64, ``visible``), ``tree_accept`` (six), ``new_len``, and in planted mode
    ``target_predict``; ``kv``, the pool after the last step.

    ValueError: another shape or dtype, both modes or neither, and what the kernels raise.
    """
    dims = Dims(N=whole("budget", budget, 0) + 1)
    dims.take("topk_logprob", topk_logprob, np.float32, "U B L K")
    dims.take("topk_token", topk_token, np.int32, "U B L K")
    dims.take("root_token", root_token, np.int32, "U B")
    dims.take("prefix_len", prefix_len, np.int32, "U B")
    dims.take("token_limit", token_limit, np.int32, "U B")
    dims.take("block_table", block_table, np.int32, "B M")
    dims.take("kv", kv, np.uint16, "Y G S R")
    layer = whole("layer", layer, 0, dims["Y"] - 1)
    steps: list[Outputs] = []
    pool: Array = kv
    for u in range(dims["U"]):
        build = tree_build(
            topk_logprob=topk_logprob[u],
            topk_token=topk_token[u],
            root_token=root_token[u],
            prefix_len=prefix_len[u],
            budget=budget,
        )
        if q is not None and tail is not None and target_predict is not None and head is None:
            dims.take("q", q, np.uint16, "U B N Hq Dk")
            dims.take("tail", tail, np.uint16, "U Y B N R")
            dims.take("target_predict", target_predict, np.int32, "U B N")
            queries = q[u]
            pool = _write_tail(pool, tail[u], root_token[u], prefix_len[u], block_table)
        elif head is not None and head_bias is not None and head_token is not None and q is None:
            dims.take("head", head, np.uint16, "U V D")
            dims.take("head_bias", head_bias, np.float32, "U V")
            dims.take("head_token", head_token, np.int32, "U V")
            embedded = planted_embed(
                node_token=build["node_token"],
                position=build["position"],
                node_count=build["node_count"],
                prefix_len=prefix_len[u],
                block_table=block_table,
                kv=pool,
                Hq=_split("head", "D", dims["D"], "Dv", Dv),
                Dk=dims["R"] if Hkv == 1 else _split("kv", "R", dims["R"], "Hkv", Hkv) - Dv,
            )
            queries, pool = embedded["q"], embedded["kv"]
        else:
            raise ValueError(
                "q, head: got another mix, want q, tail and target_predict (synthesized) "
                "or head, head_bias and head_token (planted)"
            )
        attn = verify_attn(
            q=queries,
            kv=pool[layer],
            block_table=block_table,
            prefix_len=prefix_len[u],
            node_count=build["node_count"],
            tree_mask=build["tree_mask"],
            Hkv=Hkv,
            Dv=Dv,
            scale=scale,
        )
        planted: Outputs = {}
        if head is not None and head_bias is not None and head_token is not None:
            planted = planted_head(
                out=float_to_bf16(attn["out"]),
                node_count=build["node_count"],
                head=head[u],
                head_bias=head_bias[u],
                head_token=head_token[u],
            )
        predict = planted["target_predict"] if target_predict is None else target_predict[u]
        accept = tree_accept(
            node_token=build["node_token"],
            next_token=build["next_token"],
            next_sibling=build["next_sibling"],
            target_predict=predict,
            node_count=build["node_count"],
            stop_token=stop_token,
            token_limit=token_limit[u],
            depth_limit=depth_limit,
        )
        commit = kv_commit(
            kv=pool,
            block_table=block_table,
            prefix_len=prefix_len[u],
            accept_index=accept["accept_index"],
            accept_len=accept["accept_len"],
        )
        pool = commit.pop("kv")
        steps.append({**build, **attn, **planted, **accept, **commit})
    return {**{name: np.stack([step[name] for step in steps]) for name in steps[0]}, "kv": pool}


def next_state(
    *,
    bonus_token: NDArray[np.int32],
    out_token: NDArray[np.int32],
    finished: NDArray[np.int32],
    new_len: NDArray[np.int32],
    token_limit: NDArray[np.int32],
) -> Outputs:
    """``root_token``, ``prefix_len`` and ``token_limit`` int32 [B] of the step after one with these values.

    In: outputs of one step (``out_token`` int32 [B,A], the others int32 [B]) and its ``token_limit``.
    The root is the bonus; it is -1, inactive, where the request is finished, was inactive or has no bonus.
    The limit falls by the tokens emitted; 2^31 - 1, no limit, stays.
    """
    emitted = (out_token != -1).sum(axis=1)
    left = np.where(token_limit == NO_LIMIT, NO_LIMIT, token_limit.astype(np.int64) - emitted)
    return {
        "root_token": np.where(finished != 0, -1, bonus_token).astype(np.int32),
        "prefix_len": new_len.astype(np.int32),
        "token_limit": left.astype(np.int32),
    }


def _write_tail(pool: Array, tail: Array, root_token: Array, prefix_len: Array, block_table: Array) -> Array:
    """A copy of ``pool`` [Y,G,S,R] with rows ``tail`` [Y,B,N,R] of the active requests at prefix_len.."""
    layers, pages, page_slots, width = pool.shape
    new = pool.reshape(layers, pages * page_slots, width).copy()
    for b in np.flatnonzero(root_token != -1).tolist():
        slots = int(prefix_len[b]) + np.arange(tail.shape[2])
        new[:, pool_rows(block_table, b, slots, pages, page_slots)] = tail[:, b]
    return new.reshape(pool.shape)


def _split(name: str, letter: str, size: int, by: str, parts: int) -> int:
    if size % parts:
        raise ValueError(f"{name}: got {letter} = {size}, want a multiple of {by} = {parts}")
    return size // parts
