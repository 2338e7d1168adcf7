"""The summary of many runs: every run is in it, in the order that was asked for, and an alarm is not lost."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.results import Outcome

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("repeat_verify", ROOT / "cuda" / "tools" / "repeat_verify.py")
assert spec is not None and spec.loader is not None
tool = importlib.util.module_from_spec(spec)
sys.modules["repeat_verify"] = tool  # its dataclass looks there
spec.loader.exec_module(tool)

SMOKE = str(ROOT / "fixtures" / "smoke")


def test_runs_of_right_kernels(tmp_path: Path) -> None:
    out = tmp_path / "new" / "cpu"
    assert tool.main([SMOKE, "-t", "cpu", "--runs", "3", "--random", "2", "-j", "1", "--out", str(out)]) == 0
    body = json.loads(out.with_suffix(".json").read_text())
    assert [run["order"] for run in body["runs"]] == ["forward, reverse", "random:1", "random:2"]
    totals = body["totals"]
    assert totals["alarms"] == 0 and totals["passed"] == totals["cases"] == 3 * body["runs"][0]["cases"] > 0
    assert 0 < totals["share"] < 1 and totals["share_case"]
    assert {run["set_sha256"] for run in body["runs"]} == {body["runs"][0]["set_sha256"]} != {""}
    text = out.with_suffix(".md").read_text()
    assert text.startswith("# 3 runs of ") and ": no alarm\n" in text
    assert sum(line.startswith("| ") and line.endswith("PASS |") for line in text.splitlines()) == 3


def spoilt(monkeypatch: pytest.MonkeyPatch, **change: Any) -> None:
    """The second run is not what it should be."""
    calls = []

    def verify(fixtures: Path, target: str, **options: Any) -> Any:
        results = harness.verify(fixtures, target, kernels=("tree_accept",), **options)
        calls.append(results)
        return results if len(calls) != 2 else replace(results, **{k: f(results) for k, f in change.items()})

    monkeypatch.setattr(tool, "verify", verify)


def test_one_wrong_case_in_one_run_is_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt(
        monkeypatch,
        cases=lambda r: (replace(r.cases[0], outcome=Outcome.NONDETERMINISTIC, message="x"), *r.cases[1:]),
        exit_reason=lambda _: "1 NONDETERMINISTIC",
    )
    assert tool.main([SMOKE, "-t", "cpu", "--runs", "3", "-j", "1", "--out", str(tmp_path / "cpu")]) == 1
    body = json.loads((tmp_path / "cpu.json").read_text())
    assert body["totals"]["alarms"] == 1 and len(body["runs"]) == 3
    assert ["NONDETERMINISTIC x" in text for text in body["runs"][1]["alarms"]] == [True]
    assert "1 NONDETERMINISTIC" in (tmp_path / "cpu.md").read_text()


def test_another_library_in_one_run_is_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt(monkeypatch, target=lambda r: replace(r.target, library_sha256="other"))
    assert tool.main([SMOKE, "-t", "cpu", "--runs", "2", "-j", "1", "--out", str(tmp_path / "cpu")]) == 1
    assert "NOT the same" in (tmp_path / "cpu.md").read_text()


def test_what_cannot_be_run(tmp_path: Path) -> None:
    out = str(tmp_path / "x")
    assert tool.main([SMOKE, "-t", "reference", "--runs", "1", "--random", "1", "--out", out]) == 2
    assert tool.main([SMOKE, "-t", "./nothing.so", "--runs", "1", "--out", out]) in (2, 4)
    with pytest.raises(SystemExit):
        tool.main([SMOKE, "-t", "cpu", "--runs", "2", "--random", "3", "--out", out])
