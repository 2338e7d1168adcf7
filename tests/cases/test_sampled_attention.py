"""Large attention cases store a sample of rows: it is right, it has the edges, and it can fail."""

from __future__ import annotations

import numpy as np
import pytest
from sampled import answers, case, other_row, sample

import references
from harness.case import AnyArray, known, materialize, row_values
from harness.cases.blocks.attention.masks import causal
from harness.cases.blocks.attention.requests import Request
from harness.cases.blocks.attention.sample import EVERY, SAMPLE, edges, sample_rows
from harness.draw import Draw
from harness.expect import run_reference
from harness.judge import judge
from harness.judge.compare import compare_case
from harness.lint import case_findings
from harness.memory.buffers import POISONS
from harness.observation import Observation
from harness.results import Outcome


def right() -> dict[str, AnyArray]:
    return {
        "out": references.float_to_bf16(answers()["out"]),
        "lse": answers()["lse"].astype(np.float32),
    }


def verdict(first: dict[str, AnyArray], second: dict[str, AnyArray] | None = None) -> tuple[Outcome, str]:
    seen = Observation("done", rounds=(first, second or {}), poisoned=True)
    found = judge(case(), seen)
    return found.outcome, found.message


@pytest.mark.parametrize("name", ["out", "out_m", "lse", "lse_d"])
def test_sampled_rows_are_those_of_the_whole_answer(name: str) -> None:
    found = sample(name)
    np.testing.assert_allclose(found.values, found.pick(answers()[name]), rtol=1e-6, atol=1e-9)


def test_visible_counts_are_stored_of_every_node() -> None:
    assert (known(case().expected["visible"]) == answers()["visible"]).all()


@pytest.mark.parametrize("ragged", [True, False])
def test_a_sampled_case_is_sound_and_can_fail(ragged: bool) -> None:
    assert case_findings(case(ragged)) == []
    assert len(sample("out", case(ragged)).rows) == SAMPLE


def test_a_long_prefix_is_missed_where_a_query_leans() -> None:
    """Without the first or last key of the prefix, the rows that lean to it are wrong."""
    of = case(ragged=False)
    table, prefix = materialize(of.inputs["block_table"]), int(materialize(of.inputs["prefix_len"])[0])
    for slot in (0, prefix - 1):
        pool = materialize(of.inputs["kv"]).copy()
        page_slots = pool.shape[1]
        pool[table[0, slot // page_slots], slot % page_slots] = 0
        wrong = run_reference("verify_attn", {**of.inputs, "kv": pool}, of.scalars)
        outputs = {
            "out": references.float_to_bf16(wrong["out"]),
            "lse": wrong["lse"].astype(np.float32),
        }
        assert not compare_case(of, outputs).right


def test_the_edges_are_always_in_the_sample() -> None:
    requests = [Request(5, causal(20)), Request(0, causal(0)), Request(9, causal(40)), Request(1, causal(33))]
    for seed in range(5):
        rows = sample_rows(Draw(seed), requests, 40, 16).tolist()
        assert len(rows) == SAMPLE and rows == sorted(set(rows))
        for b in (0, 3):
            assert {b * 640 + at for at in edges(requests[b].sees, 40, 16)} <= set(rows)
        assert {row // 640 for row in rows} == {0, 2, 3}
    assert len(sample_rows(Draw(0), requests[:1], 20, 12)) == EVERY


def test_edges_are_nodes_heads_words_and_tiles() -> None:
    found = edges(causal(40), 50, 16)
    for node in (0, 1, 31, 32, 39, 40, 49):
        assert {node * 16, node * 16 + 15} <= set(found)
    assert {31, 32, 63, 64, 639, 640 - 64, 640 - 65} <= set(found)


def test_a_right_answer_passes_and_says_how_much_was_compared() -> None:
    assert verdict(right()) == (Outcome.PASS, "64 of 2,176 rows compared")


def test_a_wrong_row_of_the_sample_is_named_by_its_place() -> None:
    outputs, row = right(), int(sample("out").rows[20])
    request, node, head = np.unravel_index(row, (32, 17, 4))
    outputs["out"][request, node, head, 300] ^= 0x4000
    outcome, message = verdict(outputs)
    assert outcome == Outcome.WRONG_VALUES
    assert message.startswith(f"out[{request}][{node}][{head}][300] is ")
    assert message.endswith("(64 of 2,176 rows compared)")


@pytest.mark.parametrize(
    ("name", "live", "bits"),
    [("out", True, 0x7FC0), ("out", True, 0xFF80), ("out", False, 0x3F80), ("lse", True, 0xFF800000),
     ("lse", True, 0x7FC00000), ("lse", False, 0), ("lse", False, 0x7F800000)],
)  # fmt: skip
def test_what_no_row_may_hold_is_refused_outside_the_sample(name: str, live: bool, bits: int) -> None:
    outputs, place = right(), other_row(live)
    raw = outputs[name].view(f"u{outputs[name].itemsize}")
    raw[place if name == "lse" else (*place, 7)] = bits
    outcome, message = verdict(outputs)
    assert outcome == Outcome.WRONG_VALUES
    assert message.startswith(name + "".join(f"[{i}]" for i in place))


def test_minus_zero_stands_for_nothing_outside_the_sample() -> None:
    outputs = right()
    outputs["out"][other_row(live=False)] = 0x8000
    assert verdict(outputs)[0] == Outcome.PASS


def test_a_row_that_is_never_written_is_seen_outside_the_sample() -> None:
    first, second = right(), right()
    for outputs, poison in zip((first, second), POISONS, strict=True):
        outputs["out"][other_row(live=True)] = 0x0101 * poison
    outcome, message = verdict(first, second)
    assert outcome == Outcome.UNWRITTEN and "512 of" in message


def test_rows_of_a_recipe_are_read_without_the_others() -> None:
    q = case().inputs["q"]
    rows = np.array([0, 5, 7, 2175])
    assert (row_values(q, rows) == materialize(q).reshape(-1, 576)[rows]).all()
