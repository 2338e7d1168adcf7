"""bench.json, compare.json and what is rendered from them; the verbs that write them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from click.testing import CliRunner

from harness.bench.python_session import PythonSession
from harness.bench.run import BenchOptions, bench
from harness.bench_results import (
    Arrangement,
    BenchCase,
    BenchResults,
    Ceilings,
    Clocks,
    Floor,
    Series,
    Stage,
    load_bench,
)
from harness.cli.bench import command as bench_command
from harness.cli.compare import command as compare_command
from harness.cli.report import command as report_command
from harness.compare_results import ComparedCase, CompareResults, Difference, Standing, load_compare
from harness.errors import UsageProblem
from harness.observation import Job
from harness.report.bench import write_bench
from harness.report.bench_charts import scatter
from harness.report.bench_digest import Point, stacks
from harness.report.compare import interval, ratio_axis, write_compare
from harness.results import Environment, Outcome, RunInfo, TargetInfo
from harness.targets.python import PythonTarget


def schema(name: str) -> dict[str, Any]:
    return json.loads((resources.files("harness") / name).read_text())


def series(cache: str, base: float, count: int = 30) -> Series:
    how = Arrangement(cache, "graph replay", 40, 40 if cache == "cold" else 1, 1 << 28, 50 << 20,
                      "rotation" if cache == "cold" else "")  # fmt: skip
    clocks = Clocks((1980, 1965), (3201, 3201), (40, 41), ("software power cap",))
    return Series(how, tuple(base * (1 + (i * 7 % 13) / 500) for i in range(count)), clocks)


def made() -> BenchResults:
    cases = []
    for kernel, sizes in (("tree_build", (17, 65, 257)), ("verify_attn", (17, 65)), ("greedy_step", (9, 17))):
        for number, size in enumerate(sizes):
            parts = ("tree_build", "verify_attn", "tree_accept", "kv_commit")
            stages = tuple(Stage(p, (3e-6, 4e-6)) for p in parts) if kernel == "greedy_step" else ()
            cases.append(
                BenchCase(
                    f"{kernel}/made/N{size}",
                    kernel,
                    "made",
                    (),
                    Outcome.PASS,
                    "",
                    f"harness bench --case {size}",
                    {"B": 1 + number, "N": size},
                    Floor(10**6, 10**5, 10**9, size, 2e-6, 1e-6),
                    (series("cold", size * 1e-6), series("warm", size * 6e-7)),
                    stages,
                    None,
                )
            )
    bad = "tree_accept/<b>made</b>/1"
    cases.append(
        BenchCase(
            bad,
            "tree_accept",
            "made",
            (),
            Outcome.WRONG_VALUES,
            "after timing: <i>accept_len</i>",
            "r",
            {},
            Floor(1, 1, 0, 1, None, None),
            (),
            (),
            None,
        )
    )
    run = RunInfo("2030-01-01T00:00:00Z", "harness bench f", "smoke", "f", "1.0.0", "1.0", "ab" * 32, 1.5, {})
    target = TargetInfo("cuda", "library", "made", "device", "event", (), None)
    return BenchResults(
        run, Environment({"device": "Some GPU"}), target, Ceilings(4e12, "copy", None, "none"), len(cases),
        tuple(cases), ("a note",), 1, "1 WRONG_VALUES",
    )  # fmt: skip


def test_the_schema_holds_and_names_every_field() -> None:
    body = json.loads(made().to_json())
    jsonschema.Draft202012Validator.check_schema(schema("bench.schema.json"))
    jsonschema.validate(body, schema("bench.schema.json"))
    definitions = schema("bench.schema.json")["$defs"]
    assert set(schema("bench.schema.json")["required"]) == set(body)
    assert set(definitions["case"]["required"]) == set(body["cases"][0])
    assert set(definitions["series"]["required"]) == set(body["cases"][0]["series"][0])
    assert definitions["outcome"]["enum"] == [str(outcome) for outcome in Outcome]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["cases"][0]["series"][0]["seconds"].clear(),
        lambda body: body["cases"][0]["series"][0].pop("p95"),
        lambda body: body["cases"][0].update(colour="red"),
        lambda body: body["cases"][0]["series"][0]["arrangement"].update(cache="lukewarm"),
        lambda body: body.update(planned=-1),
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


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("bench.json", lambda folder: write_bench(made(), folder)),
        ("compare.json", lambda folder: write_compare(sides(), folder)),
    ],
)
def test_a_report_is_rendered_again_byte_for_byte(tmp_path: Path, name: str, write: Any) -> None:
    written = write(tmp_path / "first")
    words = [str(tmp_path / "first" / name), "--out", str(tmp_path / "second")]
    ran = CliRunner().invoke(report_command, words, standalone_mode=False)
    assert ran.return_value == 0, ran.output
    for path in written:
        assert (tmp_path / "second" / path.name).read_bytes() == path.read_bytes()


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
