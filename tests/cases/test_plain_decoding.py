"""The state after n planted steps is that of decoding the same tokens one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from built import SEED, expected, inputs

import references
from harness.case import AnyArray, Case
from harness.cases.base import make_case
from harness.cases.greedy_step.planted import PLANTED

CASES = [make_case(PLANTED, params, SEED) for params in PLANTED.plan("standard")]


def emitted(case: Case, b: int) -> list[int]:
    """The tokens that request ``b`` put out over all steps."""
    return [int(t) for step in expected(case)["out_token"] for t in step[b] if t != -1]


def decode(case: Case, b: int, tokens: list[int]) -> tuple[AnyArray, int]:
    """Feed ``tokens`` as chains of a root alone: the pool [Y,G,S,R] and the length of the request."""
    given, scalars = inputs(case), case.scalars
    pool, length = given["kv"], int(given["prefix_len"][0, b])
    table = given["block_table"][b : b + 1]
    one = np.ones(1, np.int32)
    heads = given["head"].shape[2] // int(scalars["Dv"])
    groups, width = int(scalars["Hkv"]), pool.shape[-1]
    for token in tokens:
        step = references.tree_build(
            topk_logprob=np.zeros((1, 1, 1), np.float32),
            topk_token=np.zeros((1, 1, 1), np.int32),
            root_token=token * one,
            prefix_len=length * one,
            budget=0,
        )
        pool = references.planted_embed(
            node_token=step["node_token"],
            position=step["position"],
            node_count=step["node_count"],
            prefix_len=length * one,
            block_table=table,
            kv=pool,
            Hq=heads,
            Dk=width if groups == 1 else width // groups - int(scalars["Dv"]),
        )["kv"]
        committed = references.kv_commit(
            kv=pool,
            block_table=table,
            prefix_len=length * one,
            accept_index=np.array([[0, -1]], np.int32),
            accept_len=0 * one,
        )
        pool, length = committed["kv"], int(committed["new_len"][0])
    return pool, length


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.case_id.rsplit("/", 1)[1])
def test_rows_are_those_of_plain_decoding(case: Case) -> None:
    given, right = inputs(case), expected(case)
    compared = 0
    for b, root in enumerate(given["root_token"][0].tolist()):
        if root == -1:
            assert not emitted(case, b)
            continue
        kept = sum(int(n) + 1 for n in right["accept_len"][:, b] if n >= 0)
        # Every committed row is of the root or of a token that was put out; the last one out has no row yet,
        # unless it ended the request as an accepted draft.
        path = [root, *emitted(case, b)]
        assert len(path) - kept in (0, 1)
        pool, length = decode(case, b, path[:kept])
        assert length == int(right["new_len"][-1, b])
        slots, size = np.arange(length), pool.shape[2]
        at = given["block_table"][b, slots // size].astype(np.int64) * size + slots % size
        rows = [p.reshape(len(p), -1, p.shape[-1])[:, at] for p in (pool, right["kv"])]
        assert rows[0].tobytes() == rows[1].tobytes()
        compared += kept
    assert compared
    assert len({c.case_id for c in CASES}) == len(CASES)


def test_the_tokens_are_the_greedy_choice_of_plain_decoding() -> None:
    """Attention and head over the decoded rows say the token that the tree accepted."""
    checked = 0
    for case in CASES[:12]:
        given, right, scalars = inputs(case), expected(case), case.scalars
        width, dv, groups = given["kv"].shape[-1], int(scalars["Dv"]), int(scalars["Hkv"])
        heads = given["head"].shape[2] // dv
        for b in np.flatnonzero(given["root_token"][0] != -1).tolist():
            path = [int(given["root_token"][0, b])]
            path += [int(t) for t in right["out_token"][0, b] if t != -1]
            for k in range(len(path) - 1):  # after k + 1 tokens comes token k + 1
                pool, length = decode(case, b, path[:k])
                one = np.ones(1, np.int32)
                embedded = references.planted_embed(
                    node_token=np.array([[path[k]]], np.int32),
                    position=length * one[:, None],
                    node_count=one,
                    prefix_len=length * one,
                    block_table=given["block_table"][b : b + 1],
                    kv=pool,
                    Hq=heads,
                    Dk=width if groups == 1 else width // groups - dv,
                )
                out = references.verify_attn(
                    q=embedded["q"],
                    kv=embedded["kv"][int(scalars["layer"])],
                    block_table=given["block_table"][b : b + 1],
                    prefix_len=length * one,
                    node_count=one,
                    tree_mask=np.ones((1, 1, 1), np.uint32),
                    Hkv=groups,
                    Dv=dv,
                    scale=float(scalars["scale"]),
                )["out"]
                said = references.planted_head(
                    out=references.float_to_bf16(out),
                    node_count=one,
                    head=given["head"][0],
                    head_bias=given["head_bias"][0],
                    head_token=given["head_token"][0],
                )["target_predict"]
                assert int(said[0, 0]) == path[k + 1]
                checked += 1
    assert checked > 20
