"""greedy_step against a chain of the second oracles, and the state between steps."""

from __future__ import annotations

import numpy as np
import pytest
from ref_oracles import (
    accept_by_children,
    attention_by_slots,
    by_levels,
    commit_by_dictionary,
    tree_from_ranks,
)
from ref_steps import NO_LIMIT, i32, synthesized

from references import (
    greedy_step,
    next_state,
)

BUILD = ("node_token", "node_parent", "node_depth", "position", "next_token", "next_sibling", "tree_mask",
         "node_count", "tree_status")  # fmt: skip
ACCEPT = ("accept_index", "accept_len", "bonus_token", "out_token", "finished", "accept_status")


@pytest.mark.parametrize("mla", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_synthesized_matches_a_chain_of_other_oracles(mla, seed):
    case = synthesized(seed, mla=mla)
    before = case["kv"].copy()
    got = greedy_step(**case)
    np.testing.assert_array_equal(case["kv"], before)
    steps, batch, depths, _ = case["topk_logprob"].shape
    nodes, layers, slots = case["budget"] + 1, case["kv"].shape[0], case["kv"].shape[2]
    kv, table = case["kv"].copy(), case["block_table"]
    for u in range(steps):
        root, prefix, limit = (case[k][u] for k in ("root_token", "prefix_len", "token_limit"))
        active = root != -1
        trees = []
        for b in range(batch):
            lp = case["topk_logprob"][u, b]
            bad = bool(np.isnan(lp).any())
            ranks = [] if bad else by_levels(lp, case["budget"])
            tree = tree_from_ranks(
                ranks, case["topk_token"][u, b], int(root[b]), int(prefix[b]), case["budget"]
            )
            tree["tree_status"] = np.array(bad, np.int32)
            if not active[b]:
                tree = {
                    k: np.zeros_like(v) if k in BUILD[6:] else np.full_like(v, -1) for k, v in tree.items()
                }
            trees.append(tree)
        build = {k: np.stack([t[k] for t in trees]) for k in BUILD}
        for b in np.flatnonzero(active):
            for i in range(nodes):
                slot = prefix[b] + i
                kv[:, table[b, slot // slots], slot % slots] = case["tail"][u, :, b, i]
        attn = attention_by_slots(
            {"q": case["q"][u], "kv": kv[case["layer"]], "block_table": table, "prefix_len": prefix,
             "node_count": build["node_count"], "tree_mask": build["tree_mask"],
             **{k: case[k] for k in ("Hkv", "Dv", "scale")}}, 5,
        )  # fmt: skip
        answers = []
        for b in range(batch):
            children = {}
            for i in range(1, int(build["node_count"][b])):
                children.setdefault(int(build["node_parent"][b, i]), []).append(i)
            if active[b]:
                token, predict = build["node_token"][b].tolist(), case["target_predict"][u, b].tolist()
                answers.append(
                    accept_by_children(
                        children, token, predict, case["stop_token"].tolist(), int(limit[b]), depths
                    )
                )
            else:
                pad = [-1] * (depths + 1)
                answers.append(dict(zip(ACCEPT, (pad, -1, -1, pad, 0, 0), strict=True)))
        accept = {k: i32(*[a[k] for a in answers]) for k in ACCEPT}
        rows = commit_by_dictionary(kv, table, prefix, accept["accept_index"], accept["accept_len"])
        for (y, g, s), row in rows.items():
            kv[y, g, s] = np.frombuffer(row, kv.dtype)

        new_len = prefix + accept["accept_len"] + 1
        for name, value in {**build, **accept, "new_len": new_len, "visible": attn["visible"]}.items():
            np.testing.assert_array_equal(got[name][u], value, err_msg=f"{name} of step {u}")
            assert got[name].dtype == value.dtype, name
        for name in ("out", "lse", "out_m", "lse_d"):
            np.testing.assert_allclose(got[name][u], attn[name], rtol=1e-12, atol=1e-13, err_msg=name)
        if u + 1 < steps:  # the inputs of the next step follow from this one
            emitted = (accept["out_token"] >= 0).sum(axis=1)
            for b in range(batch):
                over = accept["finished"][b] == 1
                assert case["root_token"][u + 1, b] == (-1 if over else accept["bonus_token"][b])
                assert case["prefix_len"][u + 1, b] == new_len[b]
                assert case["token_limit"][u + 1, b] == (
                    limit[b] if limit[b] == NO_LIMIT else limit[b] - emitted[b]
                )
    np.testing.assert_array_equal(got["kv"], kv)
    assert layers == 2 and (got["accept_len"] > 0).any()
    assert "target_predict" not in got and "q" not in got


def test_next_state():
    got = next_state(
        bonus_token=i32(5, 5, -1, -1, -1),
        out_token=i32([3, 5, -1], [3, 5, -1], [3, -1, -1], [-1, -1, -1], [4, -1, -1]),
        finished=i32(0, 1, 1, 0, 0),
        new_len=i32(9, 9, 8, 4, 7),
        token_limit=i32(NO_LIMIT, 2, 1, 6, 3),
    )
    assert {k: v.tolist() for k, v in got.items()} == {
        "root_token": [5, -1, -1, -1, -1],
        "prefix_len": [9, 9, 8, 4, 7],
        "token_limit": [NO_LIMIT, 0, 0, 6, 2],
    }
    assert all(v.dtype == np.int32 for v in got.values())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"q": None}, "q, head: got another mix, want q, tail and target_predict"),
        ({"head": np.zeros((4, 3, 16), np.uint16)}, "q, head: got another mix"),
        ({"layer": 2}, r"layer: got 2, want 0\.\.1"),
        ({"budget": 6}, r"q: got uint16\[4, 4, 8, 4, 6\], want uint16\[U=4, B=4, N=7, Hq, Dk\]"),
        ({"token_limit": np.zeros((4, 3), np.int32)}, r"token_limit: got int32\[4, 3\], want int32\[U=4, B"),
        ({"kv": np.zeros((2, 57, 3, 6), np.float32)}, "kv: got float32"),
    ],
)  # fmt: skip
def test_wrong_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        greedy_step(**(synthesized(0, mla=True) | change))
