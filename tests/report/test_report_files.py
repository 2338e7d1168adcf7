"""The files of a report: golden JUnit and Markdown, sizes, and rendering again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import sample
from command_line import exit_code

from harness.report import junit, markdown, write_reports
from harness.report.digest import standing, verdict
from harness.results import Outcome, Results

GOLDEN = Path(__file__).parent / "golden"
RUNS = {"failing": sample.small(), "passing": sample.passing("cuda", each=1)}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("file", "render"), [("junit.xml", junit.render), ("summary.md", markdown.render)])
def test_golden(name: str, file: str, render: object) -> None:
    """UPDATE_GOLDEN=1 writes the files; look at the difference before committing it."""
    path = GOLDEN / f"{name}.{file}"
    text = render(RUNS[name])  # type: ignore[operator]
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("run", [sample.failing(), sample.passing(), sample.results([])])
def test_junit_counts_add_up(run: Results) -> None:
    root = ET.fromstring(junit.render(run))
    cases = root.findall("testsuite/testcase")
    assert [test.get("name") for test in cases] == [case.case_id for case in run.cases]
    elements = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for suite in [root, *root.findall("testsuite")]:
        tests = suite.findall(".//testcase")
        assert int(suite.get("tests", "")) == len(tests)
        for attribute, element in elements.items():
            assert int(suite.get(attribute, "")) == sum(test.find(element) is not None for test in tests)
    wanted = {"pass": None, "fail": "failure", "error": "error", "skip": "skipped"}
    for case, test in zip(run.cases, cases, strict=True):
        found = next((child for child in test if child.tag != "properties"), None)
        assert (None if found is None else found.tag) == wanted[standing(case.outcome)]
        if found is not None:
            assert case.message in found.get("message", "")
        properties = {p.get("name"): p.get("value") for p in test.findall("properties/property")}
        assert properties["id"] == case.case_id
        assert properties["outcome"] == case.outcome
        assert properties["flags"] == " ".join(case.flags)


def test_lost_cases_are_an_error_everywhere() -> None:
    run = replace(sample.passing(), planned=300, exit_code=None)
    root = ET.fromstring(junit.render(run))
    assert root.get("errors") == "1"
    found = verdict(run)
    assert not found.good
    assert found.exit_code == 1
    assert f"{300 - len(run.cases)} of 300 cases" in found.headline


@pytest.mark.parametrize(
    ("outcomes", "code", "headline"),
    [
        ([Outcome.PASS], 0, "The one case passes"),
        ([Outcome.PASS] * 3, 0, "All 3 cases pass"),
        ([Outcome.PASS, Outcome.UNSUPPORTED], 0, "1 of 2 cases pass"),
        ([Outcome.UNSUPPORTED], 1, "No case passes"),
        ([Outcome.PASS, Outcome.CRASH], 1, "1 of 2 cases does not pass"),
        ([Outcome.PASS, Outcome.HARNESS_ERROR, Outcome.NOT_RUN], 6, "2 of 3 cases do not pass"),
        ([], 1, "No case passes"),
    ],
)
def test_verdict(outcomes: list[Outcome], code: int, headline: str) -> None:
    run = sample.results([sample.case("tree_build", "ties", i, o, "cpu") for i, o in enumerate(outcomes)])
    found = verdict(run)
    assert (found.exit_code, found.headline) == (code, headline)
    assert found.good == (code == 0)


def test_verdict_follows_the_command() -> None:
    run = replace(sample.passing(), exit_code=1, exit_reason="no PASS for greedy_step, which --require names")
    found = verdict(run)
    assert not found.good
    assert found.exit_meaning == "a conformance failure: no PASS for greedy_step, which --require names"


@pytest.mark.parametrize(
    "run", [sample.failing(), sample.many(300, 300), sample.passing(), sample.results([])]
)
def test_markdown_is_small_and_failures_come_first(run: Results) -> None:
    text = markdown.render(run)
    assert len(text.encode()) < markdown.MAX_BYTES
    if wrong := [case for case in run.cases if standing(case.outcome) in ("fail", "error")]:
        assert text.index("### What is wrong") < text.index("### Kernels")
        assert text.count("```sh") == min(20, len(wrong))
        assert wrong[0].reproduce in text
    assert (f"… and {len(wrong) - 20:,} more" in text) == (len(wrong) > 20)


def test_report_again_is_byte_identical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "deep" / "second"
    written = write_reports(sample.failing(), first)
    assert sorted(path.name for path in written) == sorted(path.name for path in first.iterdir())
    assert exit_code("report", first / "results.json", "--out", second) == 0
    assert str(second / "index.html") in capsys.readouterr().out
    before = {path.name: path.read_bytes() for path in written}
    assert {path.name: path.read_bytes() for path in second.iterdir()} == before
    assert exit_code("report", first / "results.json") == 0
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before


def test_report_of_a_damaged_file_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"schema": "ddtree-results", "schema_version": 1}')
    assert exit_code("report", path) == 2
    assert "damaged results file" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]
