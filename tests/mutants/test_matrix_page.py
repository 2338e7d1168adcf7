"""The pages of the kill matrix: well-formed, offline, whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import check, rendered_again

from harness.cli.report import command as report_command
from harness.errors import UsageProblem
from harness.mutants.matrix import Matrix, load_matrix, survivors_first
from harness.mutants.model import Fate, Kill, Mutant
from harness.report.mutants import groups, render_html, render_markdown, write_matrix
from harness.results import Outcome

HOSTILE = "<script>alert(1)</script> | \u202e"


def matrix() -> Matrix:
    kill = Kill("tree_accept/paths/x-1", Outcome.GUARD_HIT, HOSTILE, True)
    other = Kill("greedy_step/planted/y-2", Outcome.CRASH, "", False)
    rows = {
        "accept_a": {"tree_accept/paths": kill, "greedy_step/planted": other, "tree_accept/walks": None},
        "accept_b": {"tree_accept/paths": None},
        "accept_c": {"greedy_step/planted": other},
    }
    fates = [
        Fate(
            Mutant(name, "tree_accept", "wrong-child", ("walk",), HOSTILE),
            families,
            3,
            0.5,
        )
        for name, families in rows.items()
    ]
    waits = Mutant("device_x", "greedy_step", "stream-ignored", ("greedy",), "waits", needs="a GPU")
    return Matrix(
        "cpu",
        HOSTILE,
        9,
        "2026-01-01T00:00:00Z",
        2.5,
        "harness mutants",
        survivors_first(fates),
        (waits,),
        {"device": HOSTILE},
    )


def test_survivors_come_first_and_reasons_name_them() -> None:
    made = matrix()
    assert [fate.mutant.name for fate in made.fates] == ["accept_b", "accept_c", "accept_a"]
    assert made.totals == {"survived": 1, "unclaimed": 1, "killed": 1, "not_run": 1}
    assert made.reasons == (
        "1 survived: accept_b",
        "1 killed by no case that claims the class: accept_c",
    )
    assert Matrix("cpu", "", 0, "", 0.0, "", (), (), {}).reasons == ("no mutant ran",)


def test_the_page_is_well_formed_and_runs_nothing() -> None:
    text = render_html(matrix().to_json())
    check(text)
    assert "accept_a" in text and "device_x" in text and "\u202e" not in text
    assert "1 of 3 mutants killed" in text and "<dt>Device</dt>" in text


def test_columns_are_families_the_own_kernel_first() -> None:
    (group,) = groups(matrix().to_json())
    assert group["families"] == ["tree_accept/paths", "tree_accept/walks", "greedy_step/planted"]


def test_markdown_is_a_table_by_kernel() -> None:
    text = render_markdown(matrix().to_json())
    assert "**paths G**, planted C" in text and "\\|" in text
    rows = [line for line in text.splitlines() if line.startswith("| `accept_")]
    assert len(rows) == 3 and all(row.replace("\\|", "").count("|") == 5 for row in rows)


def test_files(tmp_path: Path) -> None:
    written = write_matrix(matrix().to_json(), tmp_path)
    assert [path.name for path in written] == ["mutants.json", "mutants.md", "mutants.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mutants.html", "mutants.json", "mutants.md"]


def test_the_matrix_is_rendered_again_byte_for_byte(tmp_path: Path) -> None:
    rendered_again(write_matrix(matrix().to_json(), tmp_path / "first"), tmp_path / "second")


def test_the_committed_matrix_is_read_whole() -> None:
    path = Path(__file__).resolve().parents[2] / "reports/gpu/mutants/mutants.json"
    assert load_matrix(path) == json.loads(path.read_text(encoding="utf-8"))


ROW = matrix().to_json()["mutants"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"mutants": None},
        {"totals": {}},
        {"mutants": [{"name": "m"}]},
        {"mutants": []},
        {"mutants": [{**ROW, "verdict": "killed"}, *matrix().to_json()["mutants"][1:]]},
        {"mutants": [{**ROW, "families": {"tree_accept/paths": "dead"}}, *matrix().to_json()["mutants"][1:]]},
        {"faults": {"wrong-child": {"title": "t"}}},
        {"seconds": "2"},
        {"environment": []},
        {"harness_version": 1},
        {"more": 1},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_damaged_matrix_is_refused_and_nothing_written(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "mutants.json"
    path.write_text(json.dumps({**matrix().to_json(), **change}))
    words = [str(path), "--out", str(tmp_path / "second")]
    ran = CliRunner().invoke(report_command, words, standalone_mode=False)
    assert isinstance(ran.exception, UsageProblem) and "damaged matrix" in str(ran.exception)
    assert not (tmp_path / "second").exists()
