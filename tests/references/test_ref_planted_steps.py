"""Planted steps of greedy_step against plain decoding, one token at a time."""

from __future__ import annotations

import numpy as np
import pytest
from ref_oracles import (
    distinct_tokens,
    make_rows,
    softmax_online,
)
from ref_steps import BUILD_INPUTS, NO_LIMIT, STATE, i32, synthesized

from references import (
    bf16_to_float64,
    float_to_bf16,
    greedy_step,
    next_state,
    planted_values,
)

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


def test_planted_head_must_fit():
    case = {k: v for k, v in synthesized(0, mla=True).items() if k not in ("q", "tail", "target_predict")}
    with pytest.raises(ValueError, match="head: got D = 10, want a multiple of Dv = 4"):
        greedy_step(
            **case, head=np.zeros((4, 3, 10), np.uint16), head_bias=np.zeros((4, 3), np.float32),
            head_token=np.zeros((4, 3), np.int32),
        )  # fmt: skip
