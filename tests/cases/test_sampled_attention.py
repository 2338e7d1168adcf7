"""Large attention cases store a sample of rows: it is right, it has the edges, and it can fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import references
from harness.case import AnyArray, Case, Sampled, known, materialize, row_values
from harness.cases.base import make_case
from harness.cases.blocks.attention.masks import causal
from harness.cases.blocks.attention.requests import Request
from harness.cases.blocks.attention.sample import EVERY, SAMPLE, edges, sample_rows
from harness.cases.verify_attn.pairs import PAIRS
from harness.draw import Draw
from harness.errors import FixtureError
from harness.expect import run_reference
from harness.generate.drift import case_difference
from harness.judge import judge
from harness.judge.compare import compare_case
from harness.lint import case_findings
from harness.memory.buffers import POISONS
from harness.observation import Observation
from harness.repro import write_repro
from harness.results import Outcome
from harness.show import render
from harness.store import open_set, write_set
from harness.store.manifest import SetInfo
from harness.store.samples import sample_fault

RAGGED = {"H": 4, "N": 17, "P": 65, "B": 32, "S": 7, "tree": "comb"}
ONE = {"H": 8, "N": 33, "P": 1024, "B": 1, "S": 33, "tree": "random"}


@cache
def case(ragged: bool = True) -> Case:
    return make_case(PAIRS, RAGGED if ragged else ONE, 0)


def sample(name: str, of: Case | None = None) -> Sampled:
    value = (of or case()).expected[name]
    assert isinstance(value, Sampled)
    return value


@cache
def answers() -> dict[str, AnyArray]:
    """All rows, by the reference."""
    return run_reference("verify_attn", case().inputs, case().scalars)


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


def other_row(live: bool) -> tuple[int, int, int]:
    """A row outside the sample, of a node that sees keys or of one that is not there."""
    visible = known(case().expected["visible"])
    for row in set(range(32 * 17 * 4)) - set(sample("out").rows.tolist()):
        place = tuple(int(i) for i in np.unravel_index(row, (32, 17, 4)))
        if bool(visible[place[:2]]) == live:
            return place[0], place[1], place[2]
    raise AssertionError


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


def test_a_sample_comes_back_from_a_set_and_its_rows_are_hashed(tmp_path: Path) -> None:
    write_set([case(), case(ragged=False)], tmp_path / "full", SetInfo.here("full", 0))
    manifest = json.loads((tmp_path / "full" / "manifest.json").read_text())
    assert manifest["schema_version"] == "1.1"
    with open_set(tmp_path / "full") as fixtures:
        got = fixtures.case(case().case_id)
        hashes = {s.payload_sha256 for s in fixtures.summaries()}
    assert case_difference(replace(case(), scalars=got.scalars), got) is None
    rows = sample("out").rows.copy()
    rows[5] += 1
    moved = replace(got, expected={**case().expected, "out": replace(sample("out"), rows=rows)})
    assert case_difference(moved, got) == "expected out samples other rows"
    other = write_set([moved], tmp_path / "other", SetInfo.here("full", 0))
    assert other.files["verify_attn"].content_sha256 != manifest["files"]["verify_attn"]["content_sha256"]
    with open_set(tmp_path / "other") as fixtures:
        assert fixtures.summaries()[0].payload_sha256 not in hashes


def test_an_input_is_never_a_sample(tmp_path: Path) -> None:
    bad = replace(case(), inputs={**case().inputs, "q": sample("out")})
    write_set([bad], tmp_path / "full", SetInfo.here("full", 0))
    with open_set(tmp_path / "full") as fixtures, pytest.raises(FixtureError, match="is a sample"):
        fixtures.case(case().case_id)


def test_a_set_of_the_first_schema_is_read() -> None:
    folder = Path(__file__).resolve().parents[2] / "fixtures" / "smoke"
    assert json.loads((folder / "manifest.json").read_text())["schema_version"] in ("1.0", "1.1")
    with open_set(folder) as fixtures:
        assert fixtures.case(fixtures.summaries("verify_attn")[0].case_id).expected


def test_show_says_how_much_is_stored() -> None:
    console = Console(record=True, width=200)
    console.print(render(case(), {}))
    assert "64 of 2,176 rows compared" in console.export_text()


def test_a_program_of_the_case_compares_the_sample_and_lets_the_others_be_finite(tmp_path: Path) -> None:
    write_repro(case(), tmp_path / "repro", tmp_path / "lib.so", "harness verify")

    def read(name: str, dtype: str, *more: int) -> AnyArray:
        return np.fromfile(tmp_path / "repro" / "arrays" / name, dtype).reshape(32, 17, 4, *more)

    want, allowed = read("out.expected.bin", "<f4", 512), read("out.allowed.bin", "<f8", 512)
    lse, lse_allowed = read("lse.expected.bin", "<f4"), read("lse.allowed.bin", "<f8")
    assert (sample("out").pick(want) == sample("out").values).all()
    assert (
        np.isfinite(sample("out").pick(allowed)).all() and np.isfinite(sample("lse").pick(lse_allowed)).all()
    )
    live, dead = other_row(live=True), other_row(live=False)
    assert (allowed[live] == np.inf).all() and lse_allowed[live] == np.inf and lse[live] == 0
    assert (allowed[dead] == 0).all() and lse_allowed[dead] == 0 and lse[dead] == -np.inf


def test_rows_of_a_recipe_are_read_without_the_others() -> None:
    q = case().inputs["q"]
    rows = np.array([0, 5, 7, 2175])
    assert (row_values(q, rows) == materialize(q).reshape(-1, 576)[rows]).all()


def spoiled(**changes: Callable[[Sampled], object]) -> Case:
    expected = dict(case().expected)
    for name, change in changes.items():
        expected[name] = change(sample(name))  # type: ignore[assignment]
    return replace(case(), expected=expected)


def with_rows(change: Callable[[AnyArray], AnyArray]) -> Callable[[Sampled], Sampled]:
    return lambda value: replace(value, rows=change(value.rows))


def everywhere(change: Callable[[AnyArray], AnyArray]) -> Case:
    return spoiled(**dict.fromkeys(("out", "out_m", "lse", "lse_d"), with_rows(change)))


SPOILED = {
    "one row again and again": lambda: everywhere(np.zeros_like),
    "not rising": lambda: everywhere(lambda rows: rows[::-1].copy()),
    "negative": lambda: everywhere(lambda rows: rows - rows[0] - 1),
    "outside": lambda: everywhere(lambda rows: rows + 10**6),
    "other rows in one": lambda: spoiled(out=with_rows(lambda rows: np.arange(len(rows)))),
    "one is whole": lambda: spoiled(lse=lambda value: np.zeros(value.shape, np.float32)),
    "none": lambda: spoiled(
        **dict.fromkeys(
            ("out", "out_m", "lse", "lse_d"),
            lambda value: replace(value, rows=value.rows[:0], values=value.values[:0]),
        )
    ),
}


@pytest.mark.parametrize("bad", SPOILED.values(), ids=SPOILED.keys())
def test_a_sample_that_means_nothing_is_damage(bad: Callable[[], Case], tmp_path: Path) -> None:
    write_set(iter([bad()]), tmp_path / "set", SetInfo.here("full", 0))
    with open_set(tmp_path / "set") as fixtures, pytest.raises(FixtureError, match=r"case 0: .*gen-refs"):
        list(fixtures.cases())


def test_only_attention_is_sampled() -> None:
    sampled = Sampled((1, 1, 1), np.empty(0, np.int64), np.empty(0, np.int32))
    assert "bonus_token of tree_accept are samples" in sample_fault("tree_accept", {"bonus_token": sampled})
    assert sample_fault("verify_attn", case().expected) == ""
