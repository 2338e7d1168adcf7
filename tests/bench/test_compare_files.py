"""compare.json and what is rendered from it; the verb that writes it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from bench_samples import made, schema
from click.testing import CliRunner
from pages import rendered_again

from harness.cli.compare import command as compare_command
from harness.compare_results import ComparedCase, CompareResults, Difference, Standing, load_compare
from harness.errors import UsageProblem
from harness.report.compare import interval, ratio_axis, write_compare
from harness.results import Outcome


def compared(bench_set: Path, tmp_path: Path, *words: str) -> tuple[int, str, dict[str, Any]]:
    command = [str(bench_set), "-k", "tree_accept", "--samples", "10", "--report", str(tmp_path), *words]
    ran = CliRunner().invoke(compare_command, command, standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    return ran.return_value, ran.output, json.loads((tmp_path / "compare.json").read_text())


def sides() -> CompareResults:
    cases = []
    for number, (standing, ratio) in enumerate(
        (("SAME", 1.0), ("SLOWER", 1.31), ("FASTER", 0.5), ("UNDECIDED", 1.02), ("NO_TIMES", None))
    ):
        timed = ratio is not None
        cases.append(
            ComparedCase(
                f"tree_build/<b>made</b>/{number}",
                "tree_build",
                "cold",
                Standing(standing),
                f"<i>{standing}</i> by rank",
                ratio,
                ratio and ratio * 0.98,
                ratio and ratio * 1.03,
                0.01 if timed else None,
                (1e-6, 3e-6, 2e-6) if timed else (),
                (4e-6, 5e-6) if timed else (),
                standing == "SLOWER",
                None,
                (Difference("out", 3, 64, 0.25, (0, 1)), Difference("lse", 0, 4, None, ())),
                Outcome.PASS if timed else Outcome.CRASH,
                "" if timed else "B",
            )
        )
    base = made()
    return CompareResults(
        base.run, base.environment, base.target, replace(base.target, name="b|*.so"), False, 0.02, len(cases),
        tuple(cases), ("a <note>",), 5, "1 SLOWER",
    )  # fmt: skip


def test_a_comparison_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "compare.json"
    path.write_text(sides().to_json())
    assert load_compare(path) == sides()
    jsonschema.validate(json.loads(sides().to_json()), schema("compare.schema.json"))


@pytest.mark.parametrize(
    "change", [{"totals": {}}, {"cases": None}, {"min_effect": "small"}, {"min_effect": -1.0}, {"mood": 1}]
)
def test_a_damaged_comparison_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "compare.json"
    path.write_text(json.dumps({**json.loads(sides().to_json()), **change}))
    with pytest.raises(UsageProblem, match=r"compare\.json: damaged comparison file .*harness compare"):
        load_compare(path)


@pytest.mark.parametrize("change", [{"first": []}, {"low": None}, {"ratio": 10**400}, {"p": float("nan")}])
def test_a_damaged_case_of_a_comparison_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    body = json.loads(sides().to_json())
    body["cases"][0].update(change)
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(body))
    with pytest.raises(UsageProblem, match=r"compare\.json"):
        load_compare(path)


def test_the_comparison_page_puts_first_what_needs_action(tmp_path: Path) -> None:
    _, summary, page = (path.read_text() for path in write_compare(sides(), tmp_path))
    assert "<script" not in page and "<b>made</b>" not in page and "&lt;b&gt;made&lt;/b&gt;" in page
    for picture in re.findall(r"<svg.*?</svg>", page, re.S):
        ET.fromstring(picture)
    wanted = ["NO_TIMES", "SLOWER", "UNDECIDED", "FASTER", "SAME"]
    assert re.findall(r'<span class="tag \w+">(\w+)</span>', page) == wanted
    assert [line.split()[1] for line in summary.splitlines() if "made" in line] == wanted
    assert "out: 3 of 64 elements differ, at most 0.25" in page and "lse:" not in page
    assert (
        "| SLOWER | `tree_build/<b>made</b>/1` | cold | 2.00 µs | 4.50 µs | 1.310 | 1.284 to 1.349 |"
        in summary
    )
    assert "`b|*.so` against `cuda`" in summary


def test_intervals_of_odd_ratios_stay_on_the_axis() -> None:
    [case, *_] = sides().cases
    for ratio in (1e-9, 0.25, 1.0, 3.0, 1e9):
        odd = replace(case, ratio=ratio, low=ratio / 2, high=ratio * 2)
        axis = ratio_axis([odd])
        assert axis.low < 1 < axis.high and any(value == 1 for value, _ in axis.ticks)
        [circle] = ET.fromstring(interval(odd, axis, 0.02)).iter("circle")
        assert 0 <= float(circle.attrib["cx"]) <= 360


def test_a_comparison_is_rendered_again_byte_for_byte(tmp_path: Path) -> None:
    rendered_again(write_compare(sides(), tmp_path / "first"), tmp_path / "second")


def test_compare_exit_codes(bench_set: Path, tmp_path: Path, driver, device) -> None:
    slow, fast, wrong = device("-DSPIN=500000"), device(), device("-DWRONG_FROM=1")
    code, output, body = compared(bench_set, tmp_path, "-t", fast, "-t", slow, "--fail-on-regression")
    assert (code, body["exit_code"]) == (5, 5)
    assert body["exit_reason"] in ("1 SLOWER", "2 SLOWER")
    jsonschema.validate(body, schema("compare.schema.json"))
    assert "SLOWER" in output
    assert compared(bench_set, tmp_path, "-t", fast, "-t", slow)[0] == 0
    assert compared(bench_set, tmp_path, "-t", slow, "-t", fast, "--fail-on-regression")[0] == 0
    assert compared(bench_set, tmp_path, "-t", fast, "-t", wrong)[0] == 1
    # An effect that cannot be seen is not decided: a minimum effect of nothing can never be the SAME.
    code, output, body = compared(
        bench_set, tmp_path, "-t", fast, "-t", fast, "--min-effect", "0", "--fail-on-regression"
    )
    assert (code, body["totals"]["SAME"]) in ((125, 0), (5, 0), (0, 0))


def test_an_indicative_verdict_fails_nothing(bench_set: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="indicative verdict"):
        compared(bench_set, tmp_path, "-t", "cpu", "--baseline", "b.json", "--fail-on-regression")
