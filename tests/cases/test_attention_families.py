"""verify_attn families: preconditions, coverage of edges, leaning queries, bits that must not count."""

from __future__ import annotations

import numpy as np
import pytest
from built import SEED, cases, exclusive_slots, expected, families, inputs

import references
from harness.case import AnyArray, Case, Patched
from harness.cases.base import make_case
from harness.cases.blocks.attention import masks as masks
from harness.cases.blocks.attention.queries import draw_mark, eight_bits, lean, log2_unit, weights
from harness.cases.blocks.attention.rows import rows_named
from harness.cases.blocks.attention.sample import SAMPLE
from harness.draw import Draw
from harness.flags import FLAGS
from harness.lint.attention import NO_LEAN, TAIL_WEIGHT, discriminate


def all_cases() -> tuple[Case, ...]:
    return cases("verify_attn")


def flagged(flag: str) -> list[Case]:
    return [case for case in all_cases() if flag in case.flags]


def stored_bytes(case: Case) -> int:
    arrays = [
        v.values if isinstance(v, Patched) else v for v in (*case.inputs.values(), *case.expected.values())
    ]
    return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))


def test_counts_and_sizes() -> None:
    standard, smoke = all_cases(), cases("verify_attn", suite="smoke")
    assert 400 <= len(standard) <= 500 and 18 <= len(smoke) <= 36
    assert sum(stored_bytes(case) for case in standard) < 80e6
    assert sum(stored_bytes(case) for case in smoke) < 0.4e6
    nodes = [case.inputs["q"].shape[1] for case in standard]  # type: ignore[union-attr]
    assert sum(n >= 1025 for n in nodes) <= 4
    wide = [c for c, n in zip(standard, nodes, strict=True) if n == 65 and c.inputs["q"].shape[2] >= 8]  # type: ignore[union-attr]
    assert len(wide) <= 20
    ids = [case.case_id for case in standard]
    assert len(set(ids)) == len(ids)
    assert all(set(case.flags) <= set(FLAGS) for case in standard)


def test_suites_are_nested() -> None:
    for family in families("verify_attn"):
        smoke, standard, full = ([dict(p) for p in family.plan(s)] for s in ("smoke", "standard", "full"))
        assert all(p in standard for p in smoke) and all(p in full for p in standard)


def test_the_full_suite_keeps_expected_values_near_a_megabyte() -> None:
    for family in families("verify_attn"):
        for params in family.plan("full"):
            if "rows" not in params:  # mla, of which a sample is stored
                assert family.name in ("pairs", "splits") and SAMPLE * 512 * 8 <= 1.1e6
                continue
            rows = rows_named(str(params["rows"]))
            elements = int(params.get("B", 1)) * int(params["N"]) * rows.Hq * rows.Dv
            assert elements * 8 <= 1.1e6 * (4 if params["N"] == 1025 else 1) or params in list(
                family.plan("standard")
            )


def test_edges_are_covered() -> None:
    prefix = {int(p) for case in all_cases() for p in inputs_small(case)["prefix_len"]}
    assert {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300} <= prefix
    live = {int(n) for case in all_cases() for n in inputs_small(case)["node_count"]}
    assert {0, 1, 2, 5, 17, 31, 32, 33, 63, 64, 65, 1025} <= live
    heads = {case.inputs["q"].shape[2] for case in flagged("mla")}  # type: ignore[union-attr]
    assert {1, 2, 3, 4, 8, 16} <= heads
    groups = {(c.inputs["q"].shape[2], int(c.scalars["Hkv"])) for c in flagged("gqa")}  # type: ignore[union-attr]
    assert {(1, 1), (4, 2), (8, 2), (8, 8)} <= groups
    slots = {case.inputs["kv"].base.shape[1] for case in all_cases()}  # type: ignore[union-attr]
    assert {1, 7, 16, 33, 64, 256} <= slots


def inputs_small(case: Case) -> dict[str, AnyArray]:
    return {name: v for name, v in case.inputs.items() if isinstance(v, np.ndarray)}


def test_preconditions() -> None:
    for case in all_cases():
        given = inputs(case)
        pages, slots = given["kv"].shape[:2]
        live = given["node_count"].tolist()
        if "shared_pages" not in case.flags:
            exclusive_slots(given["block_table"], given["prefix_len"], live, slots, pages)
        assert np.isfinite(references.bf16_to_float32(given["kv"])).all()
        nodes = np.arange(given["q"].shape[1])[None] < given["node_count"][:, None]
        q = references.bf16_to_float64(given["q"])
        assert np.isfinite(q[nodes]).all() and not np.isfinite(q[~nodes]).any()
        assert case.scalars["scale"] == float(np.float32(case.scalars["scale"]))


def test_one_seed_gives_the_same_bits() -> None:
    for family in families("verify_attn"):
        for params in list(family.plan("standard"))[::17]:
            one, two = make_case(family, params, SEED), make_case(family, params, SEED)
            for name, value in inputs(one).items():
                assert value.tobytes() == inputs(two)[name].tobytes()


def test_rows_past_the_live_nodes_and_inactive_requests_are_empty() -> None:
    for case in flagged("padded_nodes") + flagged("inactive"):
        out = expected(case)
        dead = np.arange(out["out"].shape[1])[None] >= inputs_small(case)["node_count"][:, None]
        assert (out["out"][dead] == 0).all() and np.isneginf(out["lse"][dead]).all()
    for case in flagged("sees_nothing"):
        lse, live = expected(case)["lse"], inputs_small(case)["node_count"][0]
        assert np.isneginf(lse[0, :live]).any()


def test_stray_bits_do_not_count() -> None:
    changed = 0
    for case in cases("verify_attn", "bits"):
        given = inputs(case)
        live = int(given["node_count"][0])
        sees = references.unpack_mask(given["tree_mask"][0, :live], live)
        clean = masks.pack(sees, given["q"].shape[1])[None]
        changed += int((clean != given["tree_mask"]).any())
        again = references.verify_attn(**{**given, "tree_mask": clean}, **case.scalars)
        assert np.array_equal(again["lse"].astype(np.float32), expected(case)["lse"])
    assert changed >= 40


def test_twins_get_the_same_answer() -> None:
    for case in flagged("same_twice"):
        out, given = expected(case), inputs_small(case)
        batch = len(given["node_count"])
        pairs = [(0, batch - 1)]
        if "permuted" in case.case_id:
            half = batch // 2
            pairs = [((i + 1) % half, half + i) for i in range(half)]
        for a, b in pairs:
            live = int(given["node_count"][a])
            assert np.array_equal(given["q"][a, :live], given["q"][b, :live])
            np.testing.assert_allclose(out["out"][a], out["out"][b], rtol=1e-6, atol=1e-7)
            assert not np.array_equal(given["block_table"][a], given["block_table"][b])


def test_zero_queries_have_the_closed_form() -> None:
    lengths = set()
    for case in flagged("zero_query"):
        out = expected(case)
        live = int(inputs_small(case)["node_count"][0])
        visible = out["visible"][0, :live]
        np.testing.assert_allclose(
            out["lse"][0, :live], np.log(visible)[:, None].repeat(out["lse"].shape[2], 1), rtol=1e-6
        )
        lengths |= set(visible.tolist())
    assert 257 in lengths


def test_values_at_the_edges() -> None:
    assert (
        max(
            float(np.abs(expected(c)["lse"][:, : inputs_small(c)["node_count"][0]]).max())
            for c in flagged("large_logits")
        )
        > 850
    )
    for case in (c for c in flagged("huge_hidden") if c.family == "values"):
        given, out = inputs_small(case), expected(case)
        sees = references.unpack_mask(given["tree_mask"][0], int(given["node_count"][0]))
        blind = ~sees[:, 1::3].any(axis=1)
        assert blind.any() and np.abs(out["out"][0, : len(sees)][blind]).max() < 2
        assert np.abs(out["out"][0, : len(sees)][~blind]).max() > 2.0**50
    for case in (c for c in flagged("peaked") if c.family == "values"):
        tail = discriminate(case).tail_weight
        assert tail is not None


def test_tail_weight_is_in_range_everywhere() -> None:
    for case in all_cases():
        weight = discriminate(case).tail_weight
        if weight is not None and not NO_LEAN & set(case.flags):
            assert TAIL_WEIGHT[0] <= weight[0] and weight[1] <= TAIL_WEIGHT[1], case.case_id


@pytest.mark.parametrize(
    ("prefix", "nodes", "width"), [(1, 5, 16), (300, 17, 64), (5000, 33, 32), (7, 65, 64)]
)
def test_lean_hits_its_share(prefix: int, nodes: int, width: int) -> None:
    draw = Draw(prefix)
    mark = draw_mark(draw, 2, width)
    tail = (draw.below(256, (nodes, 2, width)) - 128).astype(np.float64)
    tail[:, mark != 0] = mark[mark != 0]
    before = (draw.below(256, (prefix, 2, width)) - 128).astype(np.float64)
    sees = masks.tree_sees(draw, "random", nodes)
    scale = float(np.float32(width**-0.5))
    q = lean(draw, before, tail, mark, sees, 4, scale)
    assert np.array_equal(eight_bits(q), q)
    logits = scale / 128**2 * np.einsum("ihd,khd->ihk", q, np.concatenate([before, tail]).repeat(2, axis=1))
    weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
    inside = np.where(sees[:, None], weight[..., prefix:], 0).sum(axis=-1)
    share = inside / (inside + weight[..., :prefix].sum(axis=-1))
    fair = sees.sum(axis=1) / (prefix + sees.sum(axis=1))
    np.testing.assert_allclose(share, np.clip(fair, 0.18, 0.32)[:, None].repeat(4, 1), atol=0.03)


def test_integer_weights_are_powers_of_two() -> None:
    level = np.array([[0, -1, -64, -100, -640]])
    got = weights(level, np.zeros((1, 5), np.bool_)) / 2.0**30
    np.testing.assert_allclose(got[0], 2.0 ** (level[0] / 64), rtol=1e-6)
    assert weights(level, np.array([[True, False, True, True, True]]))[0].tolist() == [0, 1 << 30, 0, 0, 0]
    assert log2_unit(0.5) == int(0.5 * np.log2(np.e) * 64 * 2.0**36 / 2.0**24)


def test_eight_bits_rounds_to_nearest() -> None:
    assert eight_bits(np.array([0, 255, -255, 257, 258, 259, 511, -1023])).tolist() == [
        0, 255, -255, 258, 258, 260, 512, -1024,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", masks.TREES)
def test_trees_are_ancestor_closed(kind: str) -> None:
    for nodes in (1, 2, 17, 65):
        sees = masks.tree_sees(Draw(nodes), kind, nodes)
        assert sees.shape == (nodes, nodes) and sees.diagonal().all() and sees[:, 0].all()
        closed = sees.astype(np.int64) @ sees.astype(np.int64) > 0
        assert np.array_equal(closed, sees)
        assert np.array_equal(references.unpack_mask(masks.pack(sees, nodes), nodes), sees)
    with pytest.raises(ValueError, match="want one of"):
        masks.tree_sees(Draw(1), "bush", 5)


def test_row_names() -> None:
    assert rows_named("gqa8x2d64v32").R == 2 * 96 and rows_named("mla4").scale == pytest.approx(0.1352337788)
    with pytest.raises(ValueError, match="mla<Hq>"):
        rows_named("mha4")
