"""bench.json and what is rendered from it; the verb that writes it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from bench_samples import made, schema
from click.testing import CliRunner
from pages import rendered_again

from harness.bench.python_session import PythonSession
from harness.bench.run import BenchOptions, bench
from harness.bench_results import (
    load_bench,
)
from harness.cli.bench import command as bench_command
from harness.errors import UsageProblem
from harness.observation import Job
from harness.report.bench import write_bench
from harness.report.bench_charts import scatter
from harness.report.bench_digest import Point, stacks
from harness.results import Outcome
from harness.targets.python import PythonTarget


def test_the_schema_holds_and_names_every_field() -> None:
    body = json.loads(made().to_json())
    jsonschema.Draft202012Validator.check_schema(schema("bench.schema.json"))
    jsonschema.validate(body, schema("bench.schema.json"))
    definitions = schema("bench.schema.json")["$defs"]
    assert set(schema("bench.schema.json")["required"]) == set(body)
    assert set(definitions["case"]["required"]) == set(body["cases"][0])
    assert set(definitions["series"]["required"]) == set(body["cases"][0]["series"][0])
    assert set(definitions["span"]["required"]) == set(body["cases"][-2]["device_span"][0])
    assert definitions["outcome"]["enum"] == [str(outcome) for outcome in Outcome]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["cases"][0]["series"][0]["seconds"].clear(),
        lambda body: body["cases"][0]["series"][0].pop("p95"),
        lambda body: body["cases"][0].update(colour="red"),
        lambda body: body["cases"][0]["series"][0]["arrangement"].update(cache="lukewarm"),
        lambda body: body.update(planned=-1),
        lambda body: body["cases"][-2]["device_span"][0].pop("launches"),
        lambda body: body["cases"][-2].update(device_span=[]),
    ],
)
def test_the_schema_refuses(change) -> None:
    body = json.loads(made().to_json())
    change(body)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, schema("bench.schema.json"))


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(made().to_json())
    assert load_bench(path) == made()
    assert load_bench(path).to_json() == made().to_json()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "ddtree-bench", "schema_version": 2}', "nonsense"]
)
def test_what_is_no_bench_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(UsageProblem, match=r"harness bench|this harness reads"):
        load_bench(path)


def test_a_series_without_samples_is_damage(tmp_path: Path) -> None:
    body = json.loads(made().to_json())
    body["cases"][0]["series"][0]["seconds"] = []
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(body))
    with pytest.raises(UsageProblem, match="damaged bench file"):
        load_bench(path)


def test_a_stage_without_samples_is_damage(tmp_path: Path) -> None:
    body = json.loads(made().to_json())
    next(case for case in body["cases"] if case["stages"])["stages"][0]["seconds"] = []
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(body))
    with pytest.raises(UsageProblem, match="damaged bench file"):
        load_bench(path)


def test_the_page_needs_no_network_and_no_script(tmp_path: Path) -> None:
    page = write_bench(made(), tmp_path)[-1].read_text()
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "&lt;b&gt;made&lt;/b&gt;" in page and "<b>made</b>" not in page
    for picture in re.findall(r"<svg.*?</svg>", page, re.S):
        ET.fromstring(picture.replace("aria-hidden", "data-x"))
    for section in ("ceilings", "failures", "tree_build", "verify_attn", "greedy_step", "stack", "series"):
        assert f'id="{section}"' in page
    assert "SM clock 1,965 to 1,980 MHz; 14 of 14 series throttled (software power cap)" in page
    assert len(page) < 200_000


def test_markdown_names_times_and_failures(tmp_path: Path) -> None:
    text = write_bench(made(), tmp_path)[1].read_text()
    assert "| `tree_build/made/N17` | cold | 17." in text
    assert "**WRONG_VALUES** `tree_accept/<b>made</b>/1`: after timing: \\<i\\>accept\\_len" in text
    assert "Events around the replay of a CUDA graph" in text


def test_charts_of_odd_points() -> None:
    for points in ([Point(0, 1e-6, "a"), Point(1, 1e-6, "a")], [Point(5, 0.0, "a"), Point(9, 2.0, "b")]):
        ET.fromstring(scatter(points, "N", "t"))
    [first, *_] = stacks(made())
    assert first.rest == pytest.approx(first.whole - 4 * 3.5e-6)


def test_shares_hold_cold_and_warm_to_their_own_floor() -> None:
    case = made().cases[0]
    cold, warm = case.series
    assert case.share_of_floor(cold) == pytest.approx(2e-6 / cold.median)
    assert case.share_of_floor(warm) == pytest.approx(1e-6 / warm.median)
    assert replace(case, floor=replace(case.floor, warm_seconds=None)).share_of_floor(warm) is None


def test_a_host_target_by_the_clock(bench_set: Path) -> None:
    results = bench(bench_set, "reference", BenchOptions(samples=5))
    jsonschema.validate(json.loads(results.to_json()), schema("bench.schema.json"))
    kinds = {(s.arrangement.quantity, s.arrangement.cache) for c in results.cases for s in c.series}
    assert kinds == {("host clock", "not controlled")}
    assert results.exit_reason == "" and results.ceilings.bytes_per_second is None


def test_a_target_with_a_clock_of_its_own() -> None:
    own = PythonTarget("own", "python", SimpleNamespace(timing="event"))
    session = PythonSession(own, Job("tree_build", {}, {}))
    quantities = schema("bench.schema.json")["$defs"]["arrangement"]["properties"]["quantity"]["enum"]
    assert session.arrange("not controlled", 0, 1).quantity == "stream events" in quantities


def test_bench_on_the_command_line(bench_set: Path, tmp_path: Path) -> None:
    words = [str(bench_set), "-t", "cpu", "-k", "tree_accept", "--samples", "5", "--report", str(tmp_path)]
    ran = CliRunner().invoke(bench_command, words, standalone_mode=False)
    assert ran.return_value == 0, ran.output
    assert "Emulated time is no performance figure" in ran.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bench.json", "summary.md", "timing.html"]
    assert load_bench(tmp_path / "bench.json").exit_code == 0


def test_a_bench_is_rendered_again_byte_for_byte(tmp_path: Path) -> None:
    rendered_again(write_bench(made(), tmp_path / "first"), tmp_path / "second")
