"""Discriminate: the closed forms against references, right verdicts, blind cases that must be reported."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import references
from harness.case import Case, Recipe, materialize
from harness.expect import expected_outputs
from harness.lint.attention import (
    TIMES,
    _flips,
    _tells_causal,
    allowed_lse,
    allowed_out,
    attention_findings,
    discriminate,
    needs_lse,
)
from harness.lint.attention_steps import attention_steps
from harness.shapes import values_of

sys.path.insert(0, str(Path(__file__).parent / "cases"))
from built import SEED, cases

from harness.cases.base import make_case
from harness.cases.blocks.attention import masks as masks
from harness.cases.greedy_step.planted import PLANTED

Bools = npt.NDArray[np.bool_]


def with_inputs(case: Case, **inputs: object) -> Case:
    """The case with other inputs, expected outputs made anew."""
    merged = {**{k: materialize(v) for k, v in case.inputs.items()}, **inputs}
    return replace(case, inputs=merged, expected=expected_outputs(case.kernel, merged, case.scalars))


def judged(case: Case, mask: npt.NDArray[np.uint32]) -> tuple[Bools, Bools]:
    """Whether lse and out [B,N] under another mask are off by two allowances, by references."""
    given = {k: materialize(v) for k, v in case.inputs.items()}
    wrong = references.verify_attn(**{**given, "tree_mask": mask}, **values_of(case.scalars))
    right = {k: materialize(v).astype(np.float64) for k, v in case.expected.items()}
    by_lse = np.zeros(mask.shape[:2], np.bool_)
    by_out = np.zeros(mask.shape[:2], np.bool_)
    for b, live in enumerate(given["node_count"].tolist()):
        one = {k: v[b, :live] for k, v in right.items()}
        bad = {k: v[b, :live] for k, v in wrong.items()}
        with np.errstate(invalid="ignore"):
            off = np.abs(bad["lse"] - one["lse"])
        bound = allowed_lse(one["lse"], one["lse_d"], one["visible"].astype(np.int64))
        infinite = np.isneginf(bad["lse"]) != np.isneginf(one["lse"])
        by_lse[b, :live] = ((off >= TIMES * bound) | infinite).any(axis=-1)
        shift = np.abs(bad["out"] - one["out"])
        limit = TIMES * allowed_out(one["out"], one["out_m"], one["lse_d"])
        by_out[b, :live] = (shift >= np.maximum(limit, 1e-300)).any(axis=(-1, -2))
    return by_lse, by_out


def small() -> list[Case]:
    chosen = [c for c in cases("verify_attn", suite="smoke") if "many_words" not in c.flags]
    return chosen + list(cases("verify_attn", "batches"))[4:16:3]


@pytest.mark.parametrize("case", small(), ids=lambda case: case.case_id.split("/", 1)[1])
def test_closed_forms_agree_with_the_reference(case: Case) -> None:
    given = {k: materialize(v) for k, v in case.inputs.items()}
    nodes = given["q"].shape[1]
    live = [b for b, n in enumerate(given["node_count"].tolist()) if n]
    for b, part in zip(live, attention_steps(case), strict=True):
        count = len(part.sees)
        by_lse, by_out, rows = _flips(part, out_alone=True)
        assert np.array_equal(rows, np.arange(count))
        for j in range(count):
            flipped = part.sees.copy()
            flipped[:, j] ^= True
            mask = given["tree_mask"].copy()
            mask[b] = masks.pack(flipped, nodes)
            want_lse, want_out = judged(case, mask)
            assert np.array_equal(by_lse[:, j], want_lse[b, :count]), (b, j)
            empty = part.visible + np.where(part.sees[:, j], -1, 1) == 0
            assert np.array_equal(by_out[~empty, j], want_out[b, :count][~empty]), (b, j)
        mask = given["tree_mask"].copy()
        mask[b] = masks.pack(masks.causal(count), nodes)
        want_lse, want_out = judged(case, mask)
        assert _tells_causal(part) == bool(want_lse[b].any() or want_out[b].any())


def test_causal_outputs_fail_by_the_allowance() -> None:
    for case in cases("verify_attn", suite="smoke"):
        if {"chain", "root_only", "empty"} & set(case.flags):
            continue
        given = {k: materialize(v) for k, v in case.inputs.items()}
        nodes = given["q"].shape[1]
        mask = np.stack([masks.pack(masks.causal(n), nodes) for n in given["node_count"].tolist()])
        assert any(found.any() for found in judged(case, mask)), case.case_id


@pytest.mark.parametrize(("kernel", "suite"), [("verify_attn", "standard"), ("greedy_step", "smoke")])
def test_every_case_discriminates(kernel: str, suite: str) -> None:
    planted = [make_case(PLANTED, p, SEED) for p in PLANTED.plan("smoke")] if kernel == "greedy_step" else []
    found = {case.case_id: attention_findings(case) for case in [*cases(kernel, suite=suite), *planted]}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_out_alone_is_weaker_and_says_so() -> None:
    seen = [discriminate(case, out_alone=True) for case in cases("verify_attn", "lengths")]
    assert all(d.missed == 0 for d in seen)
    assert 0 < sum(d.missed_by_out for d in seen) < 0.02 * sum(d.flips for d in seen)
    blind_ones = [
        case.case_id for case, d in zip(cases("verify_attn", "lengths"), seen, strict=True) if d.missed_by_out
    ]
    assert 0 < len(blind_ones) < len(seen)
    assert needs_lse(cases("verify_attn", "lengths")[:20]) == [c for c in blind_ones if c in ids(20)]


def ids(count: int) -> set[str]:
    return {case.case_id for case in cases("verify_attn", "lengths")[:count]}


def blind() -> Case:
    """A tree whose last node's key has no weight: its logit lies far below the others."""
    case = next(c for c in cases("verify_attn", "trees") if "tree_star" in c.case_id and "N5" in c.case_id)
    kv, q = materialize(case.inputs["kv"]).copy(), materialize(case.inputs["q"]).copy()
    kv_flat = kv.reshape(-1, kv.shape[-1])
    table, prefix, slots = case.inputs["block_table"], int(case.inputs["prefix_len"][0]), kv.shape[1]  # type: ignore[index]
    slot = prefix + 4
    row = int(table[0, slot // slots]) * slots + slot % slots  # type: ignore[index]
    width = q.shape[-1]
    kv_flat[row, : int(case.scalars["Hkv"]) * width : width] = 0xC3FA  # -500 against a query of 4
    q[0, :, :, 0] = 0x4080
    return with_inputs(case, kv=kv, q=q)


def test_a_blind_case_is_reported() -> None:
    lines = attention_findings(blind())
    assert len(lines) == 1 and "flipped mask bits stay within 2 allowances, first row 0 bit 4" in lines[0]


def test_a_chain_must_be_flagged() -> None:
    case = next(c for c in cases("verify_attn", suite="smoke") if "chain" in c.flags)
    assert attention_findings(case) == []
    lines = attention_findings(replace(case, flags=()))
    assert lines == ["a causal mask gives outputs within the allowance, and no flag says chain or root_only"]


def test_an_empty_case_must_be_flagged() -> None:
    case = next(c for c in cases("verify_attn") if "empty" in c.flags)
    assert attention_findings(case) == []
    assert any("no row sees a key" in line for line in attention_findings(replace(case, flags=("chain",))))


def test_queries_that_do_not_lean_are_reported() -> None:
    case = next(
        c for c in cases("verify_attn", "lengths") if "P300-N17" in c.case_id or "P300-N5" in c.case_id
    )
    q = materialize(Recipe("unit_bf16", 5, materialize(case.inputs["q"]).shape))
    lines = attention_findings(with_inputs(case, q=q))
    assert any("mean tail weight" in line for line in lines)
    assert attention_findings(replace(with_inputs(case, q=q * 0), flags=("zero_query",))) == []


def test_more_than_65_nodes_are_sampled() -> None:
    case = next(c for c in cases("verify_attn", "large") if "N1025" in c.case_id)
    (part,) = attention_steps(case)
    by_lse, _, rows = _flips(part, out_alone=False)
    assert by_lse.shape == (32, 1025) and rows[0] == 0 and rows[-1] == 1024


def test_other_kernels_have_no_attention() -> None:
    with pytest.raises(ValueError, match="no attention"):
        attention_findings(cases("tree_accept", suite="smoke")[0])
