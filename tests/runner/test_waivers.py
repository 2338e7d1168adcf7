"""Waivers: known failures are named, never silent, and cannot outlive their reason."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from bad_targets import HIT
from command_line import exit_code
from made import BUDGETS

from harness.errors import UsageProblem
from harness.results import Outcome, load_results
from harness.runner.waivers import Waiver, Waivers, load_waivers
from harness.store import open_set

CASE = f"tree_build/made/budget{HIT}"
ENTRY = {"case": CASE, "reference": "issue 12", "reason": "ties", "mode": "tolerate"}


def written(folder: Path, *entries: dict[str, object], name: str = "waivers.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"waivers": list(entries)}))
    return path


def verify(*arguments: object) -> int:
    return exit_code("verify", "--jobs", 1, "-k", "tree_build", "--report", "out", *arguments)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("missing", ["reference", "reason", "case", "mode"])
def test_an_incomplete_entry_cannot_be_made(missing: str) -> None:
    for empty in ("", "  "):
        with pytest.raises(UsageProblem, match=missing):
            Waiver(**{**ENTRY, missing: empty})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Waiver(**{name: value for name, value in ENTRY.items() if name != missing})  # type: ignore[arg-type]


def test_a_tolerated_failure_is_waived_and_named(small_set: Path, flaky, here: Path, capsys) -> None:
    path = written(here, ENTRY)
    assert verify(small_set, "--target", flaky("-DDIES"), "--waivers", path) == 0
    assert "WAIVED tree_build (1): ties [issue 12]" in capsys.readouterr().out
    results = load_results(here / "out" / "results.json")
    assert (results.totals["WAIVED"], results.totals["PASS"]) == (1, len(BUDGETS) - 1)
    [waived] = [c for c in results.cases if c.outcome is Outcome.WAIVED]
    assert waived.message.startswith("ties [issue 12]; was CRASH: killed by SIGABRT")
    assert results.run.options["waivers"] == "waivers.json"
    assert "--waivers" in results.run.command


def test_a_tolerated_case_that_passes_fails_the_run(small_set: Path, here: Path, capsys) -> None:
    path = written(here, {**ENTRY, "case": f"*budget{HIT}", "kernel": "tree_build"})
    assert verify(small_set, "--target", "cpu", "--waivers", path) == 1
    out = capsys.readouterr().out
    assert f"XPASS {CASE}" in out and "remove its waiver (ties [issue 12])" in out
    assert "FAIL: 1 XPASS" in out


def test_a_quarantined_case_is_never_launched(small_set: Path, flaky, here: Path) -> None:
    path = written(here, {**ENTRY, "mode": "quarantine"})
    assert verify(small_set, "--target", flaky("-DDIES"), "--waivers", path, "--timeout", 5) == 0
    [waived] = [c for c in load_results(here / "out" / "results.json").cases if c.outcome is Outcome.WAIVED]
    assert (waived.case_id, waived.seconds) == (CASE, None)
    assert waived.message == "not launched: ties [issue 12]"


def test_waived_is_no_pass(small_set: Path, here: Path, capsys) -> None:
    path = written(here, {**ENTRY, "case": "tree_build/*", "mode": "quarantine"})
    assert verify(small_set, "--target", "cpu", "--waivers", path) == 1
    assert "no case of tree_build passed" in capsys.readouterr().out


def test_toml(small_set: Path, flaky, here: Path) -> None:
    text = "".join(f'{key} = "{value}"\n' for key, value in ENTRY.items())
    (here / "waivers.toml").write_text(f"[[waivers]]\n{text}expires = 2999-01-31\n")
    assert verify(small_set, "--target", flaky("-DDIES"), "--waivers", here / "waivers.toml") == 0


def test_an_expired_entry_waives_nothing(small_set: Path, flaky, here: Path, capsys) -> None:
    path = written(here, {**ENTRY, "expires": "2020-01-31"})
    assert verify(small_set, "--target", flaky("-DDIES"), "--waivers", path) == 1
    out = capsys.readouterr().out
    assert f"note: the waiver of {CASE} expired on 2020-01-31: ties [issue 12]" in out
    assert "FAIL: 1 CRASH" in out


def test_the_last_day(small_set: Path, here: Path) -> None:
    path = written(here, {**ENTRY, "expires": "2027-01-31"})
    with open_set(small_set) as fixtures:
        for day, entries in ((30, 1), (31, 0)):
            assert len(load_waivers(path, fixtures.summaries(), date(2027, 1, day)).entries) == entries


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"case": "tree_build/gone"}, "the waiver of tree_build/gone fits no case of the set; remove it"),
        ({"kernel": "kv_commit"}, f"the waiver of {CASE} fits no case of kv_commit of the set"),
        ({"kernel": "no_kernel"}, "unknown kernel 'no_kernel'"),
        ({"reference": ""}, "entry 1: a waiver of"),
        ({"reason": None}, "has no reason"),
        ({"mode": "ignore"}, "mode is 'ignore', not tolerate or quarantine"),
        ({"expires": "soon"}, "expires is 'soon', not a date"),
        ({"expires": 3}, "expires is 3, not a date"),
        ({"owner": "me"}, "unknown owner; an entry has case, kernel, reference"),
    ],
)
def test_a_file_that_makes_no_sense_stops_the_run(
    small_set: Path, here: Path, capsys, entry: dict[str, object], words: str
) -> None:
    path = written(here, {**ENTRY, **entry})
    assert verify(small_set, "--target", "cpu", "--waivers", path) == 2
    err = capsys.readouterr().err
    assert words in err and str(path) in err
    assert not (here / "out" / "results.json").exists()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"waivers": {}}', '{"waivers": [1]}', "{x", '{"waivers": [], "a": 1}']
)
def test_a_file_that_is_none(small_set: Path, here: Path, capsys, text: str) -> None:
    (here / "waivers.json").write_text(text)
    assert verify(small_set, "--target", "cpu", "--waivers", here / "waivers.json") == 2
    assert verify(small_set, "--target", "cpu", "--waivers", here / "absent.toml") == 2
    assert capsys.readouterr().err.count("waiver") >= 2


def test_a_stale_entry_is_judged_by_the_set_not_the_selection(small_set: Path, here: Path) -> None:
    path = written(here, {**ENTRY, "case": "kv_commit/*"})
    assert verify(small_set, "--target", "cpu", "--waivers", path) == 0


def test_what_says_nothing_of_the_target_is_never_waived(small_set: Path) -> None:
    from harness.judge import Verdict

    waivers = Waivers((Waiver(**ENTRY),))  # type: ignore[arg-type]
    with open_set(small_set) as fixtures:
        [summary] = [s for s in fixtures.summaries() if s.case_id == CASE]
    for outcome in (Outcome.HARNESS_ERROR, Outcome.NOT_RUN, Outcome.UNSUPPORTED):
        assert waivers.applied(summary, Verdict(outcome, "why")) == Verdict(outcome, "why")
    refused = Verdict(Outcome.UNSUPPORTED, "declared, but not so")
    assert waivers.applied(summary, refused).outcome is Outcome.WAIVED
