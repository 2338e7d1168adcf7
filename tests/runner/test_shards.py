"""Shards and budgets: parts of a run add up to the run, and what is left out is counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import exit_code

from harness.errors import UsageProblem
from harness.results import Outcome, load_results
from harness.runner.planning import Shard, parse_shard, telling_first
from harness.store import open_set

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verify(folder: Path, *arguments: object) -> int:
    return exit_code("verify", folder, "--jobs", 1, *arguments)


@pytest.fixture
def shards(small_set: Path, here: Path) -> list[Path]:
    for i in (1, 2, 3):
        assert verify(small_set, "--target", "cpu", "--shard", f"{i}/3", "--report", f"part{i}") == 0
    return [here / f"part{i}" / "results.json" for i in (1, 2, 3)]


def test_shards_add_up(small_set: Path, shards: list[Path], here: Path, capsys) -> None:
    assert verify(small_set, "--target", "cpu", "--report", "whole") == 0
    assert exit_code("merge", *reversed(shards), "--out", "merged") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("PASS (")
    whole, merged = (load_results(here / name / "results.json") for name in ("whole", "merged"))
    parts = [load_results(path) for path in shards]
    assert [c.case_id for c in merged.cases] == [c.case_id for c in whole.cases]
    assert merged.planned == whole.planned == sum(part.planned for part in parts)
    assert merged.totals == whole.totals
    assert merged.target == whole.target
    assert merged.flags == whole.flags
    assert (merged.exit_code, merged.exit_reason) == (0, "")
    assert merged.run.options["merged"] == 3 and "shard" not in merged.run.options
    assert (here / "merged" / "index.html").exists()
    # folders serve as well, and nothing is merged twice
    assert exit_code("merge", "part1", "part2", "part3", "--out", "again") == 0
    assert exit_code("merge", "merged", "--out", "again") == 2
    assert "not a shard" in capsys.readouterr().err


def test_a_shard_says_so(small_set: Path, here: Path, capsys) -> None:
    assert verify(small_set, "--target", "cpu", "--shard", "2/3") == 0
    assert ", shard 2/3 only (" in capsys.readouterr().out.splitlines()[-1]
    assert (
        load_results(here / "reports" / "cpu-smoke-shard-2-of-3" / "results.json").run.options["shard"]
        == "2/3"
    )


def test_failures_and_missing_kernels_show_in_the_merger(small_set: Path, flaky, capsys) -> None:
    for i in (1, 2):
        arguments = ("--target", flaky("-DDIES"), "--shard", f"{i}/2", "--report", f"part{i}")
        verify(small_set, *arguments, "-k", "tree_build", "--require", "kv_commit")
    capsys.readouterr()
    assert exit_code("merge", "part1", "part2", "--out", "merged") == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("FAIL: 1 CRASH; no case of kv_commit passed")


def change(path: Path, **changes: object) -> None:
    body = json.loads(path.read_text())
    for where, value in changes.items():
        *parents, last = where.split("__")
        inner = body
        for name in parents:
            inner = inner[name]
        inner[last] = value
    path.write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: s.pop(), "shard 3/3 is missing"),
        (lambda s: s.pop(0), "shard 1/3 is missing"),
        (lambda s: s.append(s[0]), "given twice"),
        (lambda s: change(s[0], run__options__shard="2/3"), "shard 2/3 is in"),
        (lambda s: change(s[0], run__options__shard="1/4"), "among shards of"),
        (lambda s: change(s[0], run__options__shard="4/3"), "--shard is '4/3'"),
        (lambda s: change(s[1], target__library_sha256="0" * 64), "differ in their target library"),
        (lambda s: change(s[1], target__name="cuda"), "differ in their target: cpu and cuda"),
        (lambda s: change(s[1], run__fixture_hash="0" * 64), "differ in their fixture set"),
        (lambda s: change(s[1], run__options__repeat=9), "differ in their option repeat: 2 and 9"),
        (lambda s: change(s[1], planned=99), "99 cases planned"),
        (lambda s: change(s[1], run__harness_version="0"), "differ in their harness"),
    ],
)
def test_shards_that_do_not_belong_together(shards: list[Path], capsys, spoil, words: str) -> None:
    spoil(shards)
    assert exit_code("merge", *shards, "--out", "merged") == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    assert not Path("merged").exists()


def test_a_case_in_two_shards(shards: list[Path], capsys) -> None:
    bodies = [json.loads(path.read_text()) for path in shards]
    bodies[1]["cases"][0] = bodies[0]["cases"][0]
    shards[1].write_text(json.dumps(bodies[1]))
    assert exit_code("merge", *shards, "--out", "merged") == 2
    assert "is in two shards" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", "1/2 "])
def test_no_shard(small_set: Path, text: str) -> None:
    with pytest.raises(UsageProblem, match="--shard is"):
        parse_shard(text)
    assert verify(small_set, "--target", "cpu", "--shard", text) == 2


def test_shards_part_a_selection(small_set: Path) -> None:
    with open_set(small_set) as fixtures:
        summaries = fixtures.summaries()
    for count in (1, 2, 5, len(summaries)):
        parts = [Shard(i, count).of(summaries) for i in range(1, count + 1)]
        assert sorted(s.case_id for part in parts for s in part) == sorted(s.case_id for s in summaries)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(UsageProblem, match="is empty"):
        Shard(99, 99).of(summaries)


# Budgets.


@pytest.mark.parametrize("name", ["small", "smoke"])
def test_the_order_of_a_budget(name: str, small_set: Path) -> None:
    with open_set(small_set if name == "small" else ROOT / "fixtures" / "smoke") as fixtures:
        summaries = fixtures.summaries()
    shows = {s.case_id: {s.kernel, f"{s.kernel}/{s.family}", *s.flags} for s in summaries}
    order = [s.case_id for s in telling_first(summaries)]
    assert sorted(order) == sorted(shows)
    kernels = {s.kernel for s in summaries}
    assert {case_id.partition("/")[0] for case_id in order[: len(kernels)]} == kernels
    everything, shown = set().union(*shows.values()), set()
    for place, case_id in enumerate(order):  # until everything is shown, the most that is new
        if shown == everything:
            break
        new = len(shows[case_id] - shown)
        assert new > 0
        assert place < len(kernels) or new == max(len(shows[other] - shown) for other in order[place:])
        shown |= shows[case_id]
    assert shown == everything


def test_cases_alike_run_small_first_and_by_turns(small_set: Path) -> None:
    """Without flags every family is shown by one case, then again by the next larger one."""
    with open_set(small_set) as fixtures:
        one = next(s for s in fixtures.summaries() if s.kernel == "tree_build")
    plain = [
        replace(one, case_id=f"{family}{size}", family=family, flags=(), dims={"N": size})
        for family in ("a", "b")
        for size in (3, 2, 1)
    ]
    assert [s.case_id for s in telling_first(plain)] == ["a1", "b1", "a2", "b2", "a3", "b3"]


def test_a_budget_that_suffices(small_set: Path, here: Path, capsys) -> None:
    assert verify(small_set, "--target", "cpu", "--budget", 300, "--report", "out") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("PASS (")
    with open_set(small_set) as fixtures:
        wanted = [s.case_id for s in fixtures.summaries()]
    assert [c.case_id for c in load_results(here / "out" / "results.json").cases] == wanted


def test_a_budget_that_does_not(small_set: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """The clock passes the budget after a few cases: no failure, but counted, named and in the headline."""
    ticks = iter(range(10**6))
    monkeypatch.setattr("harness.runner.supervisor.monotonic", lambda: float(next(ticks)))
    assert verify(small_set, "--target", "cpu", "--budget", 7, "--report", "out") == 0
    results = load_results(here / "out" / "results.json")
    left = results.totals["NOT_RUN"]
    assert 0 < left < results.planned == len(results.cases)
    assert results.totals["PASS"] == results.planned - left
    assert {c.message for c in results.cases if c.outcome is Outcome.NOT_RUN} == {
        "the budget of 7 s was used"
    }
    out = capsys.readouterr().out
    assert f"NOT_RUN ({left}): the budget of 7 s was used" in out
    assert out.splitlines()[-1].startswith(f"PASS, {left} of {results.planned} cases not run (")
    assert f"{left} not run" in (here / "out" / "summary.md").read_text()
    assert results.run.command.endswith("--budget 7")


def test_a_budget_too_small_for_a_kernel_fails(small_set: Path, capsys) -> None:
    assert verify(small_set, "--target", "cpu", "--budget", 1e-9) == 1
    assert "FAIL: no case of tree_build, verify_attn" in capsys.readouterr().out
    for budget in (0, -1, "inf", "nan"):
        assert verify(small_set, "--target", "cpu", "--budget", budget) == 2


def test_reports_of_a_budget(small_set: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr("harness.runner.supervisor.monotonic", lambda: float(next(ticks)))
    assert verify(small_set, "--target", "cpu", "--budget", 7, "--report", "out") == 0
    suites = ElementTree.parse(here / "out" / "junit.xml").getroot()
    left = load_results(here / "out" / "results.json").totals["NOT_RUN"]
    assert (suites.get("failures"), suites.get("errors"), suites.get("skipped")) == ("0", "0", str(left))
    assert f"{left} not run" in (here / "out" / "index.html").read_text()
