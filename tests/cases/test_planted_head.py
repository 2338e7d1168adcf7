"""The parts of a planted step: centroid head, margins, wrong outputs, flash emulation."""

from __future__ import annotations

import numpy as np
import pytest

import references
from harness.case import AnyArray
from harness.cases.blocks.attention import masks as masks
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.planted.centroid_head import DECOY, Head, build_head, margin_used, margins
from harness.cases.blocks.planted.flash_emulation import STYLES, flash_outputs
from harness.cases.blocks.planted.wrong_inputs import Problem, flipped, wrong_masks
from harness.draw import Draw


def vectors(count: int, width: int, seed: int) -> AnyArray:
    raw: AnyArray = (Draw(seed).below(2000, (count, width)) - 1000) / 1017.0
    return raw


def test_the_head_is_the_nearest_centroid() -> None:
    right, wrong = vectors(7, 40, 1), vectors(60, 40, 2)
    planned = np.arange(100, 107, dtype=np.int32)
    head = build_head(right, planned, wrong)
    assert head is not None and len(head.head_bias) == 67
    centre = np.concatenate([right, wrong]).mean(axis=0)
    rounded = references.bf16_to_float64(head.head) + centre
    asked = references.bf16_to_float64(references.float_to_bf16(vectors(200, 40, 3)))
    distance = ((asked[:, None] - rounded[None]) ** 2).sum(axis=-1)
    assert np.array_equal(head.predict(asked), head.head_token[distance.argmin(axis=1)])
    assert np.array_equal(head.predict(right), planned)
    assert (head.predict(wrong) >= DECOY).all()
    bits = references.float_to_bf16(asked).reshape(1, -1, 1, 40)
    by_reference = references.planted_head(
        out=bits,
        node_count=np.array([200], np.int32),
        head=head.head,
        head_bias=head.head_bias,
        head_token=head.head_token,
    )
    assert np.array_equal(by_reference["target_predict"][0], head.predict(asked))


def test_equal_rows_are_dropped_and_contradictions_rejected() -> None:
    right, wrong = vectors(3, 8, 1), vectors(4, 8, 2)
    twice = build_head(right, np.arange(3, dtype=np.int32), np.concatenate([wrong, wrong[:2], right[:1]]))
    assert twice is not None and len(twice.head_bias) == 7
    assert build_head(right[[0, 0]], np.array([1, 2], np.int32), wrong) is None
    assert build_head(right[[0, 0]], np.array([1, 1], np.int32), wrong) is not None


def test_a_value_on_a_rounding_boundary_rejects() -> None:
    right, wrong = np.array([[1.0 + 2.0**-8, 0.0]]), np.array([[-1.0 - 2.0**-8, 0.25]])
    assert build_head(right, np.zeros(1, np.int32), wrong) is None


def test_padding_rows_never_win() -> None:
    head = build_head(vectors(3, 8, 1), np.arange(3, dtype=np.int32), vectors(4, 8, 2))
    assert head is not None
    asked = vectors(50, 8, 3)
    padded = head.padded(12)
    assert len(padded.head_bias) == 12 and np.array_equal(padded.predict(asked), head.predict(asked))


def test_margins_by_brute_force() -> None:
    right, wrong = vectors(3, 8, 1), vectors(4, 8, 2)
    planned = np.array([5, 6, 5], np.int32)
    head = build_head(right, planned, wrong)
    assert head is not None
    margin, ratio = margins(head, right, planned, np.full((3, 8), 0.01))
    weights = references.bf16_to_float64(head.head)
    for i in range(3):
        for k, token in enumerate(head.head_token.tolist()):
            if token == planned[i]:
                assert np.isinf(margin[i, k])
                continue
            own = weights[i] @ right[i] + float(head.head_bias[i])
            other = weights[k] @ right[i] + float(head.head_bias[k])
            assert margin[i, k] == pytest.approx(own - other)
            reach = np.abs(weights[i] - weights[k]).sum() * 0.01
            assert ratio[i, k] == pytest.approx((own - other) / reach)
    assert (margin_used(head, margin, right, right[None]) == 0).all()
    assert (margin_used(head, margin, right, wrong[None, :3]) > 0.5).all()


def problem(prefix: int, nodes: int) -> Problem:
    draw, rows = Draw(prefix + nodes), rows_named("gqa4x2d16v8")
    q = (draw.below(256, (nodes, rows.Hq, rows.Dk)) - 128) / 32
    kv = (draw.below(256, (prefix + nodes + 1, rows.R)) - 128) / 128
    return Problem(rows, rows.scale, prefix, q, kv, masks.tree_sees(draw, "random", nodes))


def by_reference(one: Problem, sees: AnyArray, prefix: int) -> AnyArray:
    out: AnyArray = references.verify_attn(
        q=references.float_to_bf16(one.q)[None],
        kv=references.float_to_bf16(one.kv)[None],
        block_table=np.zeros((1, 1), np.int32),
        prefix_len=np.array([prefix], np.int32),
        node_count=np.array([len(sees)], np.int32),
        tree_mask=masks.pack(sees, len(sees))[None],
        Hkv=one.rows.Hkv,
        Dv=one.rows.Dv,
        scale=one.scale,
    )["out"]
    return out[0].reshape(len(sees), -1)


@pytest.mark.parametrize(("prefix", "nodes"), [(0, 1), (0, 6), (9, 7)])
def test_closed_form_of_flipped_bits(prefix: int, nodes: int) -> None:
    one = problem(prefix, nodes)
    got = flipped(one)
    for j in range(nodes):
        sees = one.sees.copy()
        sees[:, j] ^= True
        np.testing.assert_allclose(got[:, j], by_reference(one, sees, prefix), atol=1e-12)


def test_wrong_masks_are_what_they_say() -> None:
    one = problem(9, 7)
    slots = wrong_masks(one, [masks.tree_sees(Draw(1), "chain", 4)])
    names = {"causal", "full", "empty", "transposed", "shifted_bits", "shifted_rows", "other_request_0"}
    assert set(slots) == names | {"prefix_plus_1", "prefix_minus_1"}
    assert "prefix_minus_1" not in wrong_masks(problem(0, 3), [])
    out = one.attend(np.stack([slots["transposed"], slots["prefix_minus_1"], slots["prefix_plus_1"]]))
    np.testing.assert_allclose(out[0], by_reference(one, one.sees.T, 9), atol=1e-12)
    np.testing.assert_allclose(out[1], by_reference(one, one.sees, 8), atol=1e-12)
    np.testing.assert_allclose(out[2], by_reference(one, one.sees, 10), atol=1e-12)
    assert not slots["other_request_0"][4:, 9:].any()


def test_flash_emulation_is_close_to_the_reference_and_to_a_plain_loop() -> None:
    one = problem(90, 7)
    exact = by_reference(one, one.sees, 90)
    outputs = flash_outputs(one)
    assert outputs.shape == (len(STYLES), 7, 32)
    bound = 2.0**-8 * (np.abs(exact) + np.abs(one.kv).max())
    assert (np.abs(outputs - exact) <= bound).all()
    number = STYLES.index((16, 1, True))
    values = list(one.head_values())
    weight, seen = one.weights(), one.slots(90, one.sees)
    for i in range(7):
        for h in range(4):
            keys = np.flatnonzero(seen.any(axis=0))
            top, total, acc = -np.inf, 0.0, np.zeros(8)
            for start in range(0, len(keys), 16):
                tile = keys[start : start + 16]
                logit = np.where(seen[i, tile], np.log(weight[i, h, tile]), -np.inf)
                new = max(top, float(logit.max()))
                if np.isneginf(new):
                    continue
                p = np.exp(logit - new)
                scale = np.exp(top - new)
                kept = references.bf16_to_float64(references.float_to_bf16(p))
                total, acc, top = total * scale + p.sum(), acc * scale + kept @ values[h][tile], new
            want = acc / total
            assert np.abs(outputs[number, i, h * 8 : h * 8 + 8] - want).max() <= 2.0**-8 * np.abs(want).max()


def test_a_least_squares_head_would_be_blind() -> None:
    """Why centroids: a head fitted to the right outputs alone does not see a wrong mask at a long prefix."""
    one = problem(300, 17)
    right = one.attend(one.slots(300, one.sees)[None])[0]
    wrong = one.attend(one.slots(300, np.tri(17, dtype=np.bool_))[None])[0]
    moved = np.abs(wrong - right).max(axis=1) > 1e-9
    fitted = np.linalg.lstsq(right, np.eye(17), rcond=None)[0]
    blind = (wrong @ fitted).argmax(axis=1) == np.arange(17)
    head = build_head(right, np.arange(17, dtype=np.int32), wrong[moved])
    assert isinstance(head, Head)
    assert (head.predict(wrong[moved]) >= DECOY).all()
    assert blind[moved].sum() > moved.sum() // 2
