"""Probes of verify_attn: wrong kernels that each kind finds, and pools that lie far apart."""

from __future__ import annotations

import numpy as np
import pytest
from built import SEED, expected, inputs, parameter

import references
from harness.case import Case
from harness.cases import FAMILIES
from harness.cases.base import make_case
from harness.judge.compare import attention_allowance
from harness.shapes import PAGE_STRIDE, shape_of, values_of


def made(kernel: str, name: str) -> list[Case]:
    (family,) = [f for f in FAMILIES if (f.kernel, f.name) == (kernel, name)]
    return [make_case(family, params, SEED) for params in family.plan("standard")]


PROBES = made("verify_attn", "probes")


def wrong(case: Case, **changed: object) -> bool:
    """Whether the outputs under changed inputs are outside the allowance."""
    got = references.verify_attn(**{**inputs(case), **changed}, **case.scalars)
    right, allowed = expected(case), attention_allowance(case.expected)
    return any(bool((np.abs(got[n] - right[n]) > allowed[n]).any()) for n in ("out", "lse"))


def test_kinds_cover_layouts_pages_and_large_trees() -> None:
    by_kind: dict[str, list[Case]] = {}
    for case in PROBES:
        by_kind.setdefault(parameter(case, "kind"), []).append(case)
    assert len(by_kind) == 7
    for kind, cases in by_kind.items():
        assert {"mla", "gqa"} <= {flag for c in cases for flag in c.flags}
        assert len({parameter(c, "S") for c in cases}) >= 3
        assert kind == "last_prefix" or max(int(parameter(c, "N")) for c in cases) > 64


@pytest.mark.parametrize("kind", ["branch", "later", "others"])
def test_a_hidden_key_with_a_weight_of_2_to_the_minus_40_shows(kind: str) -> None:
    """So small a weight moves no lse: only the huge values tell."""
    for case in (c for c in PROBES if parameter(c, "kind") == kind):
        given, right = inputs(case), expected(case)
        middle = 1 if kind == "others" else 0
        live = int(given["node_count"][middle])
        sees = references.unpack_mask(given["tree_mask"][middle, :live], live)
        quiet = ~sees[:, live // 2 :].any(axis=1) if kind != "others" else np.ones(live, np.bool_)
        assert quiet.sum() >= live // 2
        allowed = attention_allowance(case.expected)["out"][middle, :live][quiet]
        assert allowed.max() < 2.0**60 * 2.0**-40
        assert np.abs(right["out"][middle, :live][quiet]).max() < 2


@pytest.mark.parametrize("kind", ["last_word", "last_page", "each_other"])
def test_each_row_sees_one_key(kind: str) -> None:
    for case in (c for c in PROBES if parameter(c, "kind") == kind):
        given, nodes = inputs(case), int(parameter(case, "N"))
        assert (expected(case)["visible"] == 1).all()
        chosen = references.unpack_mask(given["tree_mask"][0], nodes).argmax(axis=1)
        if kind == "last_word":
            assert (chosen // 32 == (nodes - 1) // 32).all()
        elif kind == "last_page":
            assert (chosen // int(parameter(case, "S")) == (nodes - 1) // int(parameter(case, "S"))).all()
        else:
            assert sorted(chosen.tolist()) == list(range(nodes))


def test_a_kernel_that_drops_the_last_prefix_slot() -> None:
    for case in (c for c in PROBES if parameter(c, "kind") == "last_prefix"):
        given = inputs(case)
        assert wrong(case, prefix_len=given["prefix_len"] - 1)


@pytest.mark.parametrize(("kernel", "unit"), [("verify_attn", "elements"), ("kv_commit", "bytes")])
def test_far_pages_pass_their_limit_and_are_used(kernel: str, unit: str) -> None:
    for case in made(kernel, "far_pages"):
        pages, page_slots, width = shape_of(case.inputs["kv"])[-3:]
        stride = int(case.scalars[PAGE_STRIDE])
        given = inputs(case)
        assert (pages - 1) * stride >= 2 ** int(parameter(case, "bits")) > (pages - 2) * stride
        assert stride >= page_slots * width
        assert pages - 1 in given["block_table"][0]
        assert pages < 400
        if kernel == "kv_commit":
            moved = np.argwhere((given["kv"] != expected(case)["kv"]).any(axis=(0, 2, 3))).ravel()
            assert pages - 1 in moved
        plain = getattr(references, kernel)(**given, **values_of(case.scalars))
        assert {n for n in plain} == set(case.expected)
