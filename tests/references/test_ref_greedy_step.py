"""greedy_step against a chain of the second oracles, and planted steps against plain decoding."""

from __future__ import annotations

import numpy as np
import pytest
from ref_oracles import (
    accept_by_children,
    attention_by_slots,
    by_levels,
    commit_by_dictionary,
    distinct_tokens,
    make_rows,
    softmax_online,
    tree_from_ranks,
)

from references import (
    bf16_to_float64,
    float_to_bf16,
    greedy_step,
    next_state,
    planted_values,
    tree_build,
)

NO_LIMIT = 2**31 - 1
BUILD_INPUTS = ("topk_logprob", "topk_token", "root_token", "prefix_len")
STATE = ("bonus_token", "out_token", "finished", "new_len")
BUILD = ("node_token", "node_parent", "node_depth", "position", "next_token", "next_sibling", "tree_mask",
         "node_count", "tree_status")  # fmt: skip
ACCEPT = ("accept_index", "accept_len", "bonus_token", "out_token", "finished", "accept_status")


def i32(*values):
    return np.array(values, np.int32)


def synthesized(seed, *, mla, steps=4, batch=4, depths=3, width=4, budget=7):
    """Inputs of consecutive steps, each state derived from the outputs of the steps before."""
    rng = np.random.default_rng(seed)
    nodes, slots, layers, dk, dv, kv_heads = budget + 1, 3, 2, 6, 4, 1 if mla else 2
    row, pages = (dk if mla else kv_heads * (dk + dv)), 14
    pool = rng.permutation(batch * pages + 1).astype(np.int32)
    common = {
        "stop_token": i32(2),
        "block_table": pool[: batch * pages].reshape(batch, pages).copy(),
        "kv": float_to_bf16(rng.standard_normal((layers, len(pool), slots, row))),
        "budget": budget, "depth_limit": depths, "Hkv": kv_heads, "Dv": dv, "scale": 0.3, "layer": 1,
    }  # fmt: skip
    state = {
        "root_token": i32(5, -1, 6, 7)[:batch],
        "prefix_len": i32(4, 3, 0, 11)[:batch],
        "token_limit": i32(NO_LIMIT, 4, 9, 2)[:batch],
    }
    common["block_table"][state["root_token"] == -1] = -3
    per_step = []
    kv = common["kv"]
    for _ in range(steps):
        inputs = {
            "topk_logprob": make_rows(rng, (batch, depths, width), "ties"),
            "topk_token": distinct_tokens(rng, (batch, depths, width)) % 9,
            **state,
            "q": float_to_bf16(rng.standard_normal((batch, nodes, 4, dk))),
            "tail": float_to_bf16(rng.standard_normal((layers, batch, nodes, row))),
            "target_predict": rng.integers(-1, 9, (batch, nodes)).astype(np.int32),
        }
        inputs["topk_logprob"][3, 1, 0] = np.nan if len(per_step) == 0 else inputs["topk_logprob"][3, 1, 0]
        tree = tree_build(**{k: inputs[k] for k in BUILD_INPUTS}, budget=budget)
        child = np.take_along_axis(tree["node_token"], np.maximum(tree["next_token"], 0), axis=1)
        follow = (tree["next_token"] != -1) & (rng.random((batch, nodes)) < 0.7)
        inputs["target_predict"] = np.where(follow, child, inputs["target_predict"])
        per_step.append(inputs)
        one = greedy_step(**{k: v[None] for k, v in inputs.items()}, **(common | {"kv": kv}))
        kv = one["kv"]
        state = next_state(**{k: one[k][0] for k in STATE}, token_limit=state["token_limit"])
    stacked = {k: np.stack([s[k] for s in per_step]) for k in per_step[0]}
    return {**stacked, **common}


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


PLANTED = [
    {"Hkv": 1, "Dv": 24, "row": 32, "dk": 32, "heads": 2},
    {"Hkv": 2, "Dv": 16, "row": 64, "dk": 16, "heads": 2},
    {"Hkv": 2, "Dv": 8, "row": 48, "dk": 16, "heads": 4},
]


def decode_plainly(layout, head, rows, root, prefix, count, scale):
    """Token by token: every row of ``rows`` and, in turn, the row of each token; returns tokens and rows."""
    heads, kv_heads, dv, dk = layout["heads"], layout["Hkv"], layout["Dv"], layout["dk"]
    rows, tokens, token = [bf16_to_float64(r) for r in rows], [], root
    weights, bias, names = head
    for position in range(prefix, prefix + count):
        at = (i32(token), i32(position))
        rows.append(bf16_to_float64(planted_values(*at, 0x52000001, layout["row"])[0]))
        seen, out = np.stack(rows), []
        for h in range(heads):
            g = h // (heads // kv_heads)
            first = 0 if layout["row"] == dk else kv_heads * dk + g * dv
            query = bf16_to_float64(planted_values(*at, 0x51000000 + h, dk)[0])
            out.append(
                softmax_online(query, seen[:, g * dk : (g + 1) * dk], seen[:, first : first + dv], scale, 9)[
                    0
                ]
            )
        vector = bf16_to_float64(float_to_bf16(np.concatenate(out)))
        token = int(names[np.argmax(bf16_to_float64(weights) @ vector + bias)])
        tokens.append(token)
    return tokens, rows


@pytest.mark.parametrize("layout", PLANTED)
@pytest.mark.parametrize("stops, limits", [((), (NO_LIMIT, NO_LIMIT)), ((3,), (NO_LIMIT, 7))])
def test_planted_steps_are_plain_decoding(layout, stops, limits):
    rng = np.random.default_rng(layout["heads"] * 10 + len(stops))
    batch, depths, width, budget, slots, layers, pages, steps, scale = 3, 4, 3, 9, 4, 2, 20, 6, 0.9
    row, heads, dv = layout["row"], layout["heads"], layout["Dv"]
    head = (
        float_to_bf16(rng.standard_normal((60, heads * dv))),
        rng.standard_normal(60).astype(np.float32) * np.float32(0.1),
        rng.integers(0, 12, 60).astype(np.int32),
    )
    common = {
        "stop_token": i32(*stops), "budget": budget, "depth_limit": depths, "Hkv": layout["Hkv"], "Dv": dv,
        "scale": scale, "layer": 1,
        "block_table": rng.permutation(batch * pages).astype(np.int32).reshape(batch, -1),
    }  # fmt: skip
    first_kv = float_to_bf16(rng.standard_normal((layers, batch * pages, slots, row)))
    state = {
        "root_token": i32(4, -1, 9),
        "prefix_len": i32(6, 2, 0),
        "token_limit": i32(limits[0], 0, limits[1]),
    }
    start = {k: v.copy() for k, v in state.items()}

    def stored(kv, b, count):
        where = np.arange(count)
        return kv[:, common["block_table"][b, where // slots], where % slots]

    plain = {
        b: decode_plainly(
            layout, head, list(stored(first_kv, b, start["prefix_len"][b])[1]), int(start["root_token"][b]),
            int(start["prefix_len"][b]), 40, scale,
        )
        for b in (0, 2)
    }  # fmt: skip
    assert all(len(set(tokens)) > 3 for tokens, _ in plain.values())

    inputs, emitted, kv, accepted = [], {b: [] for b in range(batch)}, first_kv, 0
    outputs = []
    for _ in range(steps):
        tokens = distinct_tokens(rng, (batch, depths, width)) % 12
        for b in (0, 2):
            ahead = plain[b][0][len(emitted[b]) : len(emitted[b]) + depths]
            for d, token in enumerate(ahead):
                if rng.random() < 0.8 and token not in tokens[b, d]:
                    tokens[b, d, rng.integers(0, 2)] = token
        step = {"topk_logprob": make_rows(rng, (batch, depths, width), "smooth"), "topk_token": tokens,
                **state, "head": head[0], "head_bias": head[1], "head_token": head[2]}  # fmt: skip
        one = greedy_step(**{k: v[None] for k, v in step.items()}, **common, kv=kv)
        kv, accepted = one["kv"], accepted + int(np.maximum(one["accept_len"], 0).sum())
        for b in range(batch):
            emitted[b] += [t for t in one["out_token"][0, b].tolist() if t != -1]
        state = next_state(**{k: one[k][0] for k in STATE}, token_limit=state["token_limit"])
        inputs.append(step)
        outputs.append(one)

    assert accepted >= 4 and emitted[1] == []
    for b in (0, 2):
        want = plain[b][0]
        end = min([i + 1 for i, t in enumerate(want) if t in stops] + [int(start["token_limit"][b])])
        sent = emitted[b]
        assert sent == want[: len(sent)]
        assert steps <= len(sent) < end or len(sent) == end
        assert (state["root_token"][b] == -1) == (len(sent) == end)
        held = int(state["prefix_len"][b])
        np.testing.assert_array_equal(bf16_to_float64(stored(kv, b, held)[1]), np.stack(plain[b][1])[:held])
        np.testing.assert_array_equal(
            stored(kv, b, held)[0, start["prefix_len"][b] + 1 :],
            planted_values(
                i32(*want)[: held - start["prefix_len"][b] - 1],
                np.arange(start["prefix_len"][b] + 1, held, dtype=np.int32), 0x52000000, row,
            ),
        )  # fmt: skip

    together = greedy_step(**{k: np.stack([s[k] for s in inputs]) for k in inputs[0]}, **common, kv=first_kv)
    for name, value in together.items():
        want = kv if name == "kv" else np.concatenate([o[name] for o in outputs])
        np.testing.assert_array_equal(value, want, err_msg=name)
    assert together["target_predict"].shape == (steps, batch, budget + 1)
    assert (together["target_predict"][together["visible"] == 0] == -1).all()


def test_planted_head_reads_the_output_rounded_to_bf16():
    """Centroids are the rounded first elements and their neighbours: only the exact one is the nearest."""
    case = {k: v[:1] if k in BUILD_INPUTS else v for k, v in synthesized(1, mla=True).items()}
    case["token_limit"] = case["token_limit"][:1]
    case = {k: v for k, v in case.items() if k not in ("q", "tail", "target_predict")}

    def step(values):
        head = np.zeros((1, len(values), 4), np.uint16)
        head[0, :, 0] = values
        c = bf16_to_float64(values)
        return greedy_step(
            **case,
            head=head,
            head_bias=(-c * c / 2).astype(np.float32)[None],
            head_token=np.arange(len(values), dtype=np.int32)[None],
        )

    bits = float_to_bf16(step(np.zeros(1, np.uint16))["out"])[0, :, :, 0, 0]
    values = np.unique([v + d for v in bits.ravel().tolist() for d in (-1, 0, 1) if v]).astype(np.uint16)
    got = step(values)
    live = got["visible"][0] > 0
    assert live.sum() > 8
    np.testing.assert_array_equal(values[got["target_predict"][0][live]], bits[live])


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


def test_planted_head_must_fit():
    case = {k: v for k, v in synthesized(0, mla=True).items() if k not in ("q", "tail", "target_predict")}
    with pytest.raises(ValueError, match="head: got D = 10, want a multiple of Dv = 4"):
        greedy_step(
            **case, head=np.zeros((4, 3, 10), np.uint16), head_bias=np.zeros((4, 3), np.float32),
            head_token=np.zeros((4, 3), np.int32),
        )  # fmt: skip
