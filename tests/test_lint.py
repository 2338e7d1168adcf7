"""lint: silent on good cases, and one finding for every way in which a case can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code

from harness.case import AnyArray, Case, materialize
from harness.cases import FAMILIES
from harness.cases.base import make_case
from harness.lint import Finding, case_findings, lint
from harness.store import open_set, write_set
from harness.store.manifest import SetInfo

Edit = Callable[[AnyArray], None]
INFO = SetInfo.here("smoke", 0)


def smoke_cases() -> list[Case]:
    """The first two smoke cases of every family."""
    plans = [(family, params) for family in FAMILIES for params in islice(family.plan("smoke"), 2)]
    return [make_case(family, params, 0) for family, params in plans]


CASES = smoke_cases()


def case_of(kernel: str, wanted: Callable[[Case], bool] = lambda case: True) -> Case:
    return next(c for c in CASES if c.kernel == kernel and c.validity == "valid" and wanted(c))


def edited(case: Case, role: str, name: str, edit: Edit) -> Case:
    values = dict(getattr(case, role))
    array = materialize(values[name]).copy()
    edit(array)
    return replace(case, **{role: {**values, name: array}})


def put(index: object, value: object) -> Edit:
    return lambda array: array.__setitem__(index, value)  # type: ignore[arg-type]


def has(case: Case, text: str) -> None:
    findings = case_findings(case)
    assert any(text in finding for finding in findings), findings


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case_id)
def test_good_cases_have_no_findings(case: Case) -> None:
    assert case_findings(case) == []


# Names, flags, arrays.


def test_names_and_flags() -> None:
    case = case_of("tree_build")
    has(replace(case, case_id="tree_build/other/x"), "the id does not start with")
    has(replace(case, flags=("no_such_flag",)), "flag no_such_flag is not defined")
    has(replace(case, flags=case.flags[:1] * 2), "not sorted, or one stands twice")
    has(replace(case, flags=()), "carries no flag")


def test_arrays_of_another_shape_or_dtype() -> None:
    case = case_of("tree_accept")
    inputs = {name: materialize(value) for name, value in case.inputs.items()}
    has(
        replace(case, inputs={**inputs, "node_token": inputs["node_token"].astype(np.int64)}),
        "node_token is <i8",
    )
    has(replace(case, inputs={**inputs, "next_token": inputs["next_token"][:, :-1]}), "dimension N is both")
    has(replace(case, inputs={**inputs, "more": inputs["node_token"]}), "more unknown")
    has(replace(case, inputs={n: v for n, v in inputs.items() if n != "node_count"}), "node_count missing")
    has(replace(case, scalars={}), "depth_limit missing")
    has(replace(case, scalars={"depth_limit": 40}), "A is 41, outside 2..33")
    expected = {name: materialize(value) for name, value in case.expected.items()}
    has(replace(case, expected={**expected, "more": expected["finished"]}), "expected more is unknown")
    has(
        replace(case, expected={**expected, "finished": expected["finished"][None]}),
        "expected finished is <i4[1, ",
    )
    has(replace(case, expected={n: v for n, v in expected.items() if n != "finished"}), "finished is missing")


def test_rows_that_are_neither_mla_nor_gqa() -> None:
    case = case_of("verify_attn", lambda c: "gqa" in c.flags)
    has(replace(case, scalars={**case.scalars, "Hkv": 3}), "do not fit 3 KV heads")
    wide = replace(case, scalars={**case.scalars, "Dv": int(case.scalars["Dv"]) + 1})
    has(wide, "do not fit")


# Preconditions.


def test_lengths() -> None:
    for kernel in ("tree_build", "verify_attn", "kv_commit"):
        case = case_of(kernel)
        has(edited(case, "inputs", "prefix_len", put(..., -1)), "prefix_len is negative")
    case = case_of("tree_build")
    has(edited(case, "inputs", "prefix_len", put(..., 2**31 - 2)), "reaches 2^31")


def test_rows_of_log_probs() -> None:
    case = case_of("tree_build")
    for value in (np.nan, 0.5, np.inf):
        has(edited(case, "inputs", "topk_logprob", put((0, 0, 0), value)), "tree_status does not say")
    has(edited(case, "inputs", "topk_logprob", put((0, 0, 0), -100.0)), "tree_status does not say")
    has(edited(case, "expected", "tree_status", put(0, 1)), "is marked valid, its expected tree_status")
    bad = next(c for c in CASES if c.kernel == "tree_build" and c.validity == "invalid")
    has(replace(bad, validity="valid"), "is marked valid")
    has(replace(case_of("tree_accept"), validity="invalid"), "is marked invalid")


@pytest.mark.parametrize("kernel", ["verify_attn", "kv_commit"])
def test_pages(kernel: str) -> None:
    case = case_of(
        kernel, lambda c: len(materialize(c.inputs["prefix_len"])) > 1 and "inactive" not in c.flags
    )
    for page in (-1, 2**31 - 1):
        has(edited(case, "inputs", "block_table", put(..., page)), "is not mapped")
    twice = edited(case, "inputs", "block_table", lambda table: put(..., table[:1].copy())(table))
    has(edited(twice, "inputs", "prefix_len", put(..., 0)), "belongs to two requests, or twice to one")
    has(edited(case, "inputs", "prefix_len", put(0, 10**6)), "has no entry for slot")


def test_values_that_must_be_finite() -> None:
    case = case_of("verify_attn", lambda c: "stray_bits" not in c.flags)
    has(edited(case, "inputs", "q", put((0, 0, 0, 0), 0x7F80)), "a query of a live node is not finite")
    has(edited(case, "inputs", "kv", put(..., 0xFFC1)), "a visible row is not finite")
    has(edited(case, "inputs", "node_count", put(0, 5000)), "node_count is outside")


def test_accepted_paths() -> None:
    case = case_of("kv_commit", lambda c: (materialize(c.inputs["accept_len"]) > 0).all())
    has(edited(case, "inputs", "accept_len", put(0, 99)), "accept_len is outside")
    has(edited(case, "inputs", "accept_index", put((0, 0), 1)), "does not rise from 0")
    has(edited(case, "inputs", "accept_index", put((0, 1), 0)), "does not rise from 0")


def test_steps_follow_from_each_other() -> None:
    case = case_of("greedy_step", lambda c: len(materialize(c.inputs["root_token"])) > 1)
    live = np.argwhere(materialize(case.inputs["root_token"])[1:] != -1)[0] + (1, 0)
    has(edited(case, "inputs", "root_token", put(tuple(live), 77777)), "root_token does not follow")


# Trees.


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("node_parent", 1, "a parent does not come before its child"),
        ("node_parent", -1, "a parent does not come before its child"),
        ("node_depth", 9, "node_depth does not follow from the parents at node 1"),
        ("position", 9999, "position does not follow from the parents at node 1"),
        ("next_token", 9, "next_token does not follow"),
        ("next_sibling", 1, "next_sibling does not follow"),
        ("tree_mask", 1, "tree_mask is not the ancestors"),
        ("tree_mask", 0xFFFFFFFF, "tree_mask is not the ancestors"),
    ],
)
def test_broken_trees(name: str, value: int, text: str) -> None:
    index = (0, 1, 0) if name == "tree_mask" else (0, 1)
    has(edited(case_of("tree_build"), "expected", name, put(index, value)), f"request 0: {text}")


def test_slots_past_the_tree() -> None:
    case = case_of("tree_build")
    has(edited(case, "expected", "node_count", put(0, 1)), "slots past node_count 1 are not -1")
    has(edited(case, "expected", "node_count", put(0, 5000)), "node_count 5000 of")


# Discrimination.


def test_a_case_that_accepts_anything_is_refused() -> None:
    case = case_of("verify_attn", lambda c: not {"root_only", "empty"} & set(c.flags))
    loose = edited(edited(case, "expected", "out_m", put(..., 1e9)), "expected", "lse_d", put(..., 1e9))
    findings = case_findings(loose)
    for what in ("all-zero out", "constant lse", "all-zero lse"):
        assert f"accepts {what}" in findings
    assert any("flipped mask bits" in finding for finding in findings)
    assert not any("accepts all-NaN" in finding for finding in findings)


def test_an_answer_of_zeros_is_refused_unless_the_case_is_degenerate() -> None:
    case = case_of("verify_attn", lambda c: not {"root_only", "empty"} & set(c.flags))
    zero = replace(case, expected={n: np.zeros_like(materialize(v)) for n, v in case.expected.items()})
    has(zero, "accepts all-zero out")
    assert not any("accepts" in line for line in case_findings(replace(zero, flags=("empty",))))


def test_a_commit_that_moves_nothing_into_nothing_is_refused() -> None:
    case = case_of("kv_commit")
    still = replace(case, expected={"kv": case.inputs["kv"], "new_len": case.inputs["prefix_len"]})
    has(still, "accepts copied integer outputs")


def test_a_case_refuses_its_own_answer() -> None:
    case = case_of("verify_attn")
    has(edited(case, "expected", "lse", put((0, 0, 0), np.nan)), "refuses its own expected outputs")


# A whole set, and the command line.


def test_a_whole_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [case_of("tree_build"), case_of("tree_accept")]
    write_set(good, tmp_path / "good", INFO)
    bad = replace(good[1], case_id=good[1].case_id + "x")
    worse = replace(good[0], case_id=good[0].case_id + "y", flags=("no_such_flag",))
    write_set([*good, bad, worse], tmp_path / "bad", INFO)
    wanted = [
        Finding(bad.case_id, f"has the payload of {good[1].case_id}"),
        Finding(worse.case_id, "flag no_such_flag is not defined"),
    ]
    assert exit_code("lint", tmp_path / "bad", "--jobs", "1") == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [str(finding) for finding in wanted]
    assert "4 cases, 2 findings" in printed.err


def test_wrong_case_hashes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.store.spool.case_hashes", lambda case, values: ("0" * 64, "1" * 64))
    write_set([case_of("tree_build")], tmp_path / "set", INFO)
    with open_set(tmp_path / "set") as fixtures:
        messages = [finding.message for finding in lint(fixtures, jobs=1)]
    assert messages == [f"{name}_sha256 is not that of its values" for name in ("payload", "integrity")]


def test_damage_is_no_finding(tmp_path: Path) -> None:
    assert exit_code("lint", tmp_path) == 3


def test_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [case_of("tree_build"), case_of("tree_accept")]
    write_set(cases, tmp_path / "set", INFO)

    def rows(*arguments: str | Path) -> list[dict[str, object]]:
        assert exit_code("list", *arguments, "--json") == 0
        parsed: list[dict[str, object]] = json.loads(capsys.readouterr().out)
        return parsed

    assert [row["case_id"] for row in rows(tmp_path / "set")] == [case.case_id for case in cases]
    assert [row["case_id"] for row in rows(tmp_path / "set", "-k", "tree_accept")] == [cases[1].case_id]
    assert [row["case_id"] for row in rows(tmp_path / "set", "--flag", cases[0].flags[0])] == [
        cases[0].case_id
    ]
    assert {row["flag"] for row in rows("--flags")} >= set(cases[0].flags)
    counts = {row["flag"]: row["cases"] for row in rows(tmp_path / "set", "--flags")}
    assert counts[cases[0].flags[0]] == 1
    assert {row["kernel"] for row in rows("--families", "-k", "kv_commit")} == {"kv_commit"}
    for arguments in ((tmp_path / "set",), ("--flags",), ("--families",)):
        assert exit_code("list", *arguments) == 0
        assert capsys.readouterr().out
    assert exit_code("list") == 2
    assert exit_code("list", tmp_path / "set", "--flag", "no_such_flag") == 2
    assert exit_code("list", tmp_path / "absent") == 3
