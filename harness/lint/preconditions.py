"""Lint: a case keeps the contract's preconditions, or is marked invalid where the contract allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from harness.case import AnyArray, Case
from harness.memory.hostile import dead_attention_rows
from references import next_state

Arrays = Mapping[str, AnyArray]
_LARGEST = 2**31
_CARRIED = ("bonus_token", "out_token", "finished", "new_len")


def precondition_findings(case: Case, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    """One line for each broken precondition. ``inputs`` and ``expected`` are the case's, materialised."""
    yield from _CHECKS[case.kernel](case, inputs, expected)


def _tree_build(case: Case, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    nodes = int(case.scalars["budget"]) + 1
    yield from _rows(case, inputs, expected["tree_status"], inputs["root_token"])
    yield from _lengths(inputs["prefix_len"], np.where(inputs["root_token"] != -1, nodes, 0))


def _verify_attn(case: Case, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    nodes, pool = inputs["q"].shape[1], inputs["kv"]
    count = inputs["node_count"]
    if (count < 0).any() or (count > nodes).any():
        yield f"node_count is outside 0..{nodes}"
        return
    yield from _lengths(inputs["prefix_len"], np.where(count > 0, nodes, 0))
    found = list(_pages(inputs["block_table"], inputs["prefix_len"], count, *pool.shape[:2]))
    yield from found
    if not all(_finite(inputs["q"][b, :live]) for b, live in enumerate(count.tolist())):
        yield "a query of a live node is not finite"
    if not found:
        seen = np.ones(pool.shape[0] * pool.shape[1], np.bool_)
        seen[dead_attention_rows(inputs)] = False
        if not _finite(pool.reshape(len(seen), -1)[seen]):
            yield "a visible row is not finite"


def _tree_accept(case: Case, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    yield from _validity(case, expected["accept_status"], "accept_status")


def _kv_commit(case: Case, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    index, length = inputs["accept_index"].astype(np.int64), inputs["accept_len"]
    if (length < -1).any() or (length >= index.shape[1]).any():
        yield f"accept_len is outside -1..{index.shape[1] - 1}"
        return
    tail = np.zeros(len(length), np.int64)
    for b, last in enumerate(length.tolist()):
        path = index[b, : last + 1]
        if last >= 0 and (path[0] != 0 or (np.diff(path) <= 0).any()):
            yield f"request {b}: accept_index does not rise from 0"
            return
        tail[b] = path[-1] + 1 if last >= 0 else 0
    yield from _lengths(inputs["prefix_len"], tail)
    yield from _pages(inputs["block_table"], inputs["prefix_len"], tail, *inputs["kv"].shape[1:3])


def _greedy_step(case: Case, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    nodes, steps = int(case.scalars["budget"]) + 1, len(inputs["root_token"])
    yield from _rows(case, inputs, expected["tree_status"], inputs["root_token"])
    for u in range(steps):
        prefix, live = inputs["prefix_len"][u], inputs["root_token"][u] != -1
        tail = np.where(live, nodes, 0)
        yield from _lengths(prefix, tail)
        for line in _pages(inputs["block_table"], prefix, tail, *inputs["kv"].shape[1:3]):
            yield f"step {u}: {line}"
        if "q" in inputs and not _finite(inputs["q"][u][_live_nodes(expected["node_count"][u], nodes)]):
            yield f"step {u}: a query of a live node is not finite"
        if u:
            before = {name: expected[name][u - 1] for name in _CARRIED}
            wanted = next_state(**before, token_limit=inputs["token_limit"][u - 1])
            for name, values in wanted.items():
                if (inputs[name][u] != values)[wanted["root_token"] != -1].any():
                    yield f"step {u}: {name} does not follow from the step before"


_CHECKS: dict[str, Callable[[Case, Arrays, Arrays], Iterator[str]]] = {
    "tree_build": _tree_build,
    "verify_attn": _verify_attn,
    "tree_accept": _tree_accept,
    "kv_commit": _kv_commit,
    "greedy_step": _greedy_step,
}


def _rows(case: Case, inputs: Arrays, status: AnyArray, root: AnyArray) -> Iterator[str]:
    """Log-prob rows [..,L,K] are sorted, <= 0 and no NaN, except where the expected status says so."""
    rows = inputs["topk_logprob"]
    fine = (rows <= 0).all(axis=(-2, -1)) & (rows[..., 1:] <= rows[..., :-1]).all(axis=(-2, -1))
    wanted = np.where(root == -1, 0, ~fine)
    if (status != wanted).any():
        yield "tree_status does not say which rows are NaN, positive or unsorted"
    yield from _validity(case, status, "tree_status")


def _validity(case: Case, status: AnyArray, name: str) -> Iterator[str]:
    if status.any() != (case.validity == "invalid"):
        yield f"is marked {case.validity}, its expected {name} says otherwise"


def _lengths(prefix_len: AnyArray, tail: AnyArray) -> Iterator[str]:
    live = tail > 0
    if (prefix_len[live] < 0).any() or (prefix_len.astype(np.int64) + tail >= _LARGEST)[live].any():
        yield "prefix_len is negative, or reaches 2^31 with the tree"


def _pages(
    table: AnyArray, prefix_len: AnyArray, tail: AnyArray, pages: int, page_slots: int
) -> Iterator[str]:
    """Slots below prefix_len + tail are mapped; those of the tail belong to one request alone."""
    every, own = [], []
    for b, (prefix, count) in enumerate(zip(prefix_len.tolist(), tail.tolist(), strict=True)):
        slots = np.arange(prefix + count if count else 0)
        if len(slots) > table.shape[1] * page_slots:
            yield f"request {b}: block_table has no entry for slot {prefix + count - 1}"
            return
        page = table[b, slots // page_slots].astype(np.int64)
        if ((page < 0) | (page >= pages)).any():
            yield f"request {b}: a slot below {prefix + count} is not mapped"
            return
        rows = page * page_slots + slots % page_slots
        every.append(rows)
        own.append(rows[prefix:])
    if every:
        rows, uses = np.unique(np.concatenate(every), return_counts=True)
        if np.isin(np.concatenate(own), rows[uses > 1]).any():
            yield "a slot at or past prefix_len belongs to two requests, or twice to one"


def _finite(bits: AnyArray) -> bool:
    """Whether bf16 bits hold no NaN and no infinity."""
    return not bool(((bits & 0x7F80) == 0x7F80).any())


def _live_nodes(count: AnyArray, nodes: int) -> AnyArray:
    """Bool [B,N]."""
    return np.asarray(np.arange(nodes)[None, :] < count[:, None])
