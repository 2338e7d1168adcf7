"""Bytes and operations of live nodes, and the floor that follows."""

from __future__ import annotations

import numpy as np
import pytest

from harness.bench.ceilings import ceilings_of, floor_of, impossible
from harness.bench.first_step import first_step
from harness.bench.work import Work, work_of
from harness.case import Case, Recipe
from harness.cases import FAMILIES
from harness.cases.base import make_case
from harness.expect import expected_outputs


def case_of(kernel, inputs, scalars) -> Case:
    expected = expected_outputs(kernel, inputs, scalars)
    return Case(f"{kernel}/made", kernel, "made", (), "exact", "valid", 0, inputs, scalars, expected)


def attention(nodes: int, slots: int, prefix: int, requests: int = 1, shared: bool = False) -> Case:
    """A chain of ``nodes`` live nodes in ``slots`` slots, 2 heads, mla rows."""
    pages = 1 if shared else requests
    words = (slots + 31) // 32
    mask = np.zeros((requests, slots, words), np.uint32)
    for i in range(nodes):
        for j in range(i + 1):
            mask[:, i, j // 32] |= np.uint32(1 << (j % 32))
    inputs = {
        "q": np.zeros((requests, slots, 2, 576), np.uint16),
        "kv": Recipe("unit_bf16", 1, (pages, 64, 576)),
        "block_table": np.zeros((requests, 1), np.int32)
        if shared
        else np.arange(requests, dtype=np.int32)[:, None],
        "prefix_len": np.full(requests, prefix, np.int32),
        "node_count": np.full(requests, nodes, np.int32),
        "tree_mask": mask,
    }
    return case_of("verify_attn", inputs, {"Hkv": 1, "Dv": 512, "scale": 0.1})


def test_attention_counts_what_live_nodes_see() -> None:
    work = work_of(attention(nodes=3, slots=3, prefix=10))
    pairs = 11 + 12 + 13
    assert work.flops == 2 * 2 * pairs * (576 + 512)
    assert work.read_bytes == 13 * 576 * 2 + 3 * 2 * 576 * 2 + 3 * 4
    assert work.written_bytes == 3 * 2 * (512 * 2 + 4)
    assert work.live_nodes == 3


def test_dead_slots_cost_nothing() -> None:
    padded, tight = work_of(attention(3, 33, 10)), work_of(attention(3, 3, 10))
    assert padded.flops == tight.flops
    assert padded.written_bytes == tight.written_bytes
    assert padded.read_bytes == tight.read_bytes + 3 * 4  # a second mask word a node


def test_shared_pages_are_read_once() -> None:
    own, shared = work_of(attention(3, 3, 10, 2)), work_of(attention(3, 3, 10, 2, shared=True))
    assert own.flops == shared.flops
    assert own.read_bytes - shared.read_bytes == 13 * 576 * 2


def test_rows_that_stay_cost_nothing() -> None:
    def commit(*index: int) -> Work:
        inputs = {
            "kv": Recipe("bytes", 2, (3, 4, 8, 100)),
            "block_table": np.arange(4, dtype=np.int32)[None],
            "prefix_len": np.array([5], np.int32),
            "accept_index": np.array([[*index, *[-1] * (6 - len(index))]], np.int32),
            "accept_len": np.array([len(index) - 1], np.int32),
        }
        return work_of(case_of("kv_commit", inputs, {}))

    assert commit(0, 2, 5).read_bytes - commit(0, 1, 2).read_bytes == 2 * 3 * 100
    assert commit(0, 1, 2).written_bytes == 4


def test_every_smoke_family_has_work_and_one_step() -> None:
    for family in FAMILIES:
        for params in list(family.plan("smoke"))[:1]:
            case = first_step(make_case(family, params, 0))
            work = work_of(case)
            assert work.read_bytes > 0 and work.written_bytes > 0, case.case_id
            if case.kernel in ("verify_attn", "greedy_step"):
                assert work.flops > 0, case.case_id


def test_the_first_step_alone_has_its_own_pool() -> None:
    family = next(f for f in FAMILIES if f.kernel == "greedy_step" and f.name == "synthesized")
    case = next(c for c in (make_case(family, p, 0) for p in family.plan("smoke")) if "U3" in c.case_id)
    first = first_step(case)
    assert first.inputs["q"].shape[0] == 1 and case.inputs["q"].shape[0] == 3
    assert np.array_equal(first.expected["node_token"], case.expected["node_token"][:1])
    assert first_step(first) is first


def test_floors() -> None:
    known = ceilings_of("NVIDIA H200", 4e12)
    assert known.flops_per_second == 989.4e12
    floor = floor_of(Work(3_000_000, 1_000_000, 10**9, 5), known)
    assert floor.seconds == pytest.approx(10**9 / 989.4e12)
    assert floor_of(Work(30_000_000, 10_000_000, 10**9, 5), known).seconds == pytest.approx(1e-5)
    unknown = ceilings_of("Some Device", None)
    assert unknown.flops_per_second is None
    assert floor_of(Work(1, 1, 1, 1), unknown).seconds is None


def test_a_time_below_the_floor_is_impossible() -> None:
    known, work = ceilings_of("NVIDIA H200", 4e12), Work(4_000_000, 0, 10**9, 5)
    assert impossible(1e-7, "warm", work, known).endswith("is more than 9.89e+14 a second")
    assert impossible(1e-6 * 1.02, "cold", work, known) == ""
    assert "for 40000000 bytes" in impossible(2e-6, "cold", Work(40_000_000, 0, 0, 5), known)
    assert impossible(2e-6, "warm", Work(40_000_000, 0, 0, 5), known) == ""
