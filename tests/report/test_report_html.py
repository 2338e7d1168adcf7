"""The page: well-formed, offline, without scripts, complete and small, whatever the texts hold."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import check

from harness.report import html, junit, markdown, tree_svg, write_reports
from harness.report.digest import standing
from harness.results import Mismatch, Outcome, Results, TreePicture

LIMIT = 1_500_000


@pytest.mark.parametrize("run", [sample.failing(), sample.passing("cuda"), sample.results([])])
def test_structure(run: Results) -> None:
    text = html.render(run)
    page = check(text)
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert page.tags.count("table") == page.tags.count("caption")
    assert page.tags.count("h1") == 1
    for case in run.cases:
        assert case.case_id in page.text
        if standing(case.outcome) in ("fail", "error"):
            assert case.reproduce in page.text
            assert case.message in page.text
    for flag in {flag for case in run.cases if case.outcome == "WRONG_VALUES" for flag in case.flags}:
        assert run.flags[flag]["probes"] in page.text
        assert run.flags[flag]["effect"] in page.text


def test_a_failure_says_everything() -> None:
    page = check(html.render(sample.failing()))
    for words in (
        "node_parent[1, 2]",
        "out[0, 6, 3, 118]",
        "-0.43359375",
        "4 of 34",
        "1,904 of 34,816",
        "3.482",
    ):
        assert words in page.text
    for words in ("15 of 200 cases do not pass", "183 of 200 PASS", "Exit 1, a conformance failure"):
        assert words in page.text
    assert "the paths part after node" in page.text


def test_the_rate_of_the_replay_is_a_fact() -> None:
    assert "cases a second" not in html.render(sample.passing())
    page = html.render(replace(sample.passing(), cases_per_second=1234.56))
    assert "1,235 cases a second from the first result to the last" in page


def test_timing_is_labelled() -> None:
    assert "Emulated: no performance figure" in check(html.render(sample.failing("cpu"))).text
    assert "Event time on the device" in check(html.render(sample.passing("cuda"))).text


@pytest.mark.parametrize("wrong", [40, 2_500])
def test_size_budget(wrong: int) -> None:
    run = sample.many(2_500, wrong)
    text = html.render(run)
    assert len(text.encode()) < LIMIT
    page = check(text)
    shown = sum(case.case_id in page.text for case in run.cases)
    if wrong < 2_500:
        assert shown == 2_500
    else:
        assert page.tags.count("article") > 40
        stated = re.search(r"([\d,]+) further failures not shown here", page.text)
        assert stated
        assert int(stated[1].replace(",", "")) == 2_500 - shown


def test_size_budget_holds_for_wide_characters() -> None:
    cases = [replace(case, message="\U0001f333" * 3_000) for case in sample.many(600, 600).cases]
    text = html.render(sample.results(cases))
    assert len(text.encode()) < LIMIT
    check(text)


NASTY = [
    "</code></pre><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> ' {{ 7*7 }} {% raw %}",
    "]]> <!-- --> &amp; &#0; \x00\x01\x1b[31m\x7f\x9f\ufffe\uffff",
    "`` ``` | a | b \n# heading\n- [x](javascript:alert(1)) @team #1 <b>",
    "\ud800 lone, \u202e reversed, \u2028 separated\r\n",
    "",
    "x" * 5_000,
]
text_strategy = st.sampled_from(NASTY) | st.text(st.characters(), max_size=60)
number = st.integers(-3, 40)
numbers = st.lists(number, max_size=50).map(tuple)
pictures = st.builds(TreePicture, number, numbers, numbers, numbers, numbers)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(text_strategy, min_size=16, max_size=16), pictures, st.sampled_from(list(Outcome)))
def test_hostile_texts_never_break_a_report(
    tmp_path: Path, texts: list[str], picture: TreePicture, outcome: Outcome
) -> None:
    run = sample.failing()
    case = replace(
        run.cases[0],
        case_id=texts[0],
        kernel=texts[1],
        family=texts[2],
        flags=(texts[3], "mla"),
        outcome=outcome,
        policy=texts[4],
        message=texts[5],
        share=2.5,
        reproduce=texts[6],
        mismatch=Mismatch(texts[7], (1, 2), texts[8], texts[9], 1, 2),
        tree=picture,
        dims={texts[10]: 3},
    )
    hostile = replace(
        run,
        run=replace(
            run.run, command=texts[11], time=texts[12], suite=texts[13], options={texts[14]: [texts[15]]}
        ),
        target=replace(run.target, name=texts[13], description=texts[0], timing=texts[14]),
        cases=(case, replace(case, outcome=Outcome.PASS), *run.cases[:3]),
        flags={texts[3]: {texts[4]: texts[5]}},
        notes=(texts[15],),
        exit_reason=texts[12],
    )
    written = {path.name: path.read_text(encoding="utf-8") for path in write_reports(hostile, tmp_path)}
    check(written["index.html"])
    ET.fromstring(written["junit.xml"])
    assert len(written["summary.md"].encode()) < markdown.MAX_BYTES
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", written["index.html"] + written["summary.md"])
    assert junit.render(hostile).count("<testcase ") == len(hostile.cases) + (
        hostile.planned > len(hostile.cases)
    )


def pills_of(root: ET.Element) -> list[ET.Element]:
    return [box for group in root.iter("g") if "pill" in group.get("class", "") for box in group]


@settings(max_examples=100, deadline=None)
@given(pictures)
def test_any_tree_can_be_drawn(picture: TreePicture) -> None:
    root = ET.fromstring(tree_svg.render(picture))
    pills = pills_of(root)
    assert len(pills) <= tree_svg.MAX_NODES + 33
    assert all(float(pill.get("x", "")) >= 0 for pill in pills)
    assert root.findtext("title") == tree_svg.describe(picture)


def test_tree_picture_marks_paths_and_divergence() -> None:
    picture = TreePicture(2, (-1, 0, 0, 1, 1, 2), (9, 10, 11, 12, 13, 14), (0, 1, 3, -1), (0, 2, 5, -1))
    root = ET.fromstring(tree_svg.render(picture))
    boxes = {group.get("class"): len(group) for group in root.iter("g")}
    assert boxes["pill both"] == boxes["pill off"] == boxes["ring"] == 1
    assert boxes["pill want"] == boxes["pill got"] == 2
    words = "Request 2: the paths part after node 0 (depth 0): expected node 1, got node 2."
    assert tree_svg.describe(picture) == words


def test_tree_picture_says_what_it_leaves_out() -> None:
    nodes = 400
    picture = TreePicture(
        0, (-1, *(i // 2 for i in range(nodes - 1))), tuple(range(nodes)), (0, 1, 4), (0, 2)
    )
    root = ET.fromstring(tree_svg.render(picture))
    drawn = len(pills_of(root))
    assert f"{nodes - drawn} nodes far from both paths not drawn" in tree_svg.hidden_note(picture)
    counts = [int(node.text[1:]) for node in root.iter("text") if node.text and node.text.startswith("+")]
    assert sum(counts) == nodes - drawn
