"""A sample of rows in a set, in `harness show` and in a program of the case; and what is no sample."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sampled import case, other_row, sample

from harness.case import AnyArray, Case, Sampled
from harness.errors import FixtureError
from harness.generate.drift import case_difference
from harness.repro import write_repro
from harness.show import render
from harness.store import open_set, write_set
from harness.store.manifest import SetInfo
from harness.store.samples import sample_fault


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
