"""planted_embed against a loop over Python integers, planted_head against exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ref_oracles import mix_int, value_int

from references import bf16_to_float64, float_to_bf16, planted_embed, planted_head, planted_values


def i32(*values):
    return np.array(values, np.int32)


def test_mix_does_not_collide():
    """Every step is invertible, so different words stay different; zero stays zero."""
    assert mix_int(0) == 0
    assert len({mix_int(x) for x in range(4096)}) == 4096


def test_values_match_python_integers():
    token = i32(0, 1, -1, 163839, 2**31 - 1, -(2**31), 77, 77)
    position = i32(0, 1, 5, 262143, 2**31 - 1, 0, 3, 4)
    for salt in (0x51000000, 0x51000007, 0x52000000, 0x5200003C):
        got = bf16_to_float64(planted_values(token, position, salt, 40))
        for i, (t, p) in enumerate(zip(token.tolist(), position.tolist(), strict=True)):
            for e in range(40):
                assert Fraction(got[i, e]) == value_int(t, p, salt, e)


def test_values_spread():
    got = bf16_to_float64(planted_values(np.arange(200, dtype=np.int32), np.zeros(200, np.int32), 1, 64))
    assert got.min() == -1.0 and got.max() == 127 / 128
    assert abs(got.mean()) < 0.02 and 0.55 < got.std() < 0.6
    assert len(np.unique(got, axis=0)) == 200


def test_embed_writes_live_nodes_only():
    rng = np.random.default_rng(1)
    kv = rng.integers(0, 65536, (3, 7, 4, 10), dtype=np.uint16)
    arguments = {
        "node_token": i32([5, 6, 7], [8, 9, -1], [-1, -1, -1]),
        "position": i32([3, 4, 4], [0, 1, -1], [-1, -1, -1]),
        "node_count": i32(3, 2, 0),
        "prefix_len": i32(3, 0, 9),
        "block_table": i32([6, 2, -9], [0, -9, -9], [-1, -1, -1]),
    }
    before = kv.copy()
    got = planted_embed(**arguments, kv=kv, Hq=2, Dk=10)
    np.testing.assert_array_equal(kv, before)
    want_q, want = np.zeros((3, 3, 2, 10)), bf16_to_float64(kv)
    for b, i, page, place in ((0, 0, 6, 3), (0, 1, 2, 0), (0, 2, 2, 1), (1, 0, 0, 0), (1, 1, 0, 1)):
        t, p = int(arguments["node_token"][b, i]), int(arguments["position"][b, i])
        for e in range(10):
            for h in range(2):
                want_q[b, i, h, e] = value_int(t, p, 0x51000000 + h, e)
            for y in range(3):
                want[y, page, place, e] = value_int(t, p, 0x52000000 + y, e)
    np.testing.assert_array_equal(bf16_to_float64(got["q"]), want_q)
    np.testing.assert_array_equal(bf16_to_float64(got["kv"]), want)


def head_by_fractions(out, head, bias, tokens):
    logits = [
        sum(Fraction(a) * Fraction(b) for a, b in zip(out.tolist(), row.tolist(), strict=True))
        + Fraction(float(c))
        for row, c in zip(head, bias, strict=True)
    ]
    return int(tokens[logits.index(max(logits))])


def test_head_matches_fractions():
    rng = np.random.default_rng(2)
    out, head = rng.standard_normal((2, 5, 2, 6)), rng.standard_normal((30, 12))
    head[7] = head[21] = head[3]  # equal rows: ties go to the lowest
    bits, head_bits = float_to_bf16(out), float_to_bf16(head)
    bias, tokens = rng.standard_normal(30).astype(np.float32), rng.permutation(30).astype(np.int32)
    for shift in (90.0, -90.0):
        bias[[3, 7, 21]] = shift
        got = planted_head(out=bits, node_count=i32(5, 3), head=head_bits, head_bias=bias, head_token=tokens)
        for b, count in enumerate((5, 3)):
            for i in range(5):
                exact = head_by_fractions(
                    bf16_to_float64(bits[b, i]).ravel(), bf16_to_float64(head_bits), bias, tokens
                )
                assert got["target_predict"][b, i] == (exact if i < count else -1)
                assert i >= count or shift < 0 or exact == tokens[3]


def test_head_near_ties_do_not_depend_on_the_order_of_summation():
    """Two rows are permutations of each other against a constant output: their exact logits are equal."""
    rng = np.random.default_rng(3)
    row = float_to_bf16(rng.standard_normal(512))
    head = np.stack([rng.permutation(row) for _ in range(40)])
    out = np.full((1, 1, 1, 512), 0x3DCD, np.uint16)
    got = planted_head(
        out=out,
        node_count=i32(1),
        head=head,
        head_bias=np.zeros(40, np.float32),
        head_token=np.arange(40, dtype=np.int32),
    )
    assert got["target_predict"].tolist() == [[0]]


def test_head_tells_a_near_tie_from_a_tie():
    """The second logit is larger by 2^-45, far below the slack of the first look."""
    got = planted_head(
        out=float_to_bf16(np.array([1.0, 2.0**-45])).reshape(1, 1, 1, 2),
        node_count=i32(1),
        head=float_to_bf16(np.array([[1.0, 0.0], [1.0, 1.0]])),
        head_bias=np.zeros(2, np.float32),
        head_token=i32(5, 6),
    )
    assert got["target_predict"].tolist() == [[6]]


@pytest.mark.parametrize("where", ["out", "head", "head_bias"])
@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0])
def test_head_non_finite_logit(where, bits):
    rng = np.random.default_rng(4)
    arguments = {
        "out": float_to_bf16(rng.standard_normal((1, 3, 1, 4))),
        "node_count": i32(3),
        "head": float_to_bf16(rng.standard_normal((5, 4))),
        "head_bias": np.zeros(5, np.float32),
        "head_token": i32(1, 2, 3, 4, 5),
    }
    if where == "out":
        arguments["out"][0, 1, 0, 2] = bits
    elif where == "head":
        arguments["head"][4, 0] = bits
    else:
        arguments["head_bias"][2] = np.uint32(bits << 16).view(np.float32)
    got = planted_head(**arguments)["target_predict"][0]
    assert [t == -1 for t in got.tolist()] == [where != "out", True, where != "out"]


def test_wrong_arguments():
    head = {
        "head": np.zeros((5, 8), np.uint16),
        "head_bias": np.zeros(5, np.float32),
        "head_token": i32(*range(5)),
    }
    with pytest.raises(ValueError, match=r"head: got \(5, 8\), want \[V >= 1, D = Hq \* Dv = 6\]"):
        planted_head(out=np.zeros((1, 1, 2, 3), np.uint16), node_count=i32(1), **head)
    with pytest.raises(ValueError, match=r"head_bias: got float32\[4\], want float32\[V=5\]"):
        planted_head(
            out=np.zeros((1, 1, 2, 4), np.uint16),
            node_count=i32(1),
            **(head | {"head_bias": np.zeros(4, np.float32)}),
        )
