"""Dead workers: the culprit is told from the victim, and nothing gets lost. Flaky libraries are found."""

from __future__ import annotations

import json
import shlex
import threading
from pathlib import Path

import jsonschema
import pytest
from bad_targets import HIT
from made import BUDGETS, tree_case
from scripted import FAULT, FINE, SLOW, Scripted

from harness.observation import Observation
from harness.results import Outcome, Results
from harness.runner import supervisor
from harness.runner.child import Death
from harness.runner.conclusion import failures
from harness.runner.supervisor import Settings, Supervisor, Victim
from harness.runner.verification import VerifyOptions, verify
from harness.targets import Options

ROOT = Path(__file__).resolve().parents[2]
CULPRIT = f"tree_build/made/budget{HIT}"
AFTER = f"tree_build/made/budget{BUDGETS[BUDGETS.index(HIT) + 1]}"


def run(folder: Path, library: Path, **options: object) -> Results:
    given = {"kernels": ("tree_build",), "jobs": 1, "timeout": 30.0, **options}
    return verify(folder, str(library), VerifyOptions(**given))  # type: ignore[arg-type]


def by_id(results: Results) -> dict[str, Outcome]:
    return {case.case_id: case.outcome for case in results.cases}


def test_a_victim_is_told_from_its_culprit(small_set: Path, flaky) -> None:
    results = run(small_set, flaky("-DPOISONS"))
    assert set(by_id(results).values()) == {Outcome.PASS}  # alone all are right
    assert results.planned == len(results.cases) == len(BUDGETS)
    # one case dies of the culprit's doing; its worker is replaced, so the one after it runs in a clean one
    [victim] = [case for case in results.cases if case.suspect]
    assert (victim.case_id, victim.suspect) == (AFTER, CULPRIT)
    assert f"CRASH after {CULPRIT} in one worker, which is suspect (killed by SIGABRT" in victim.message
    [note] = results.notes
    assert note.startswith(f"{AFTER}: CRASH after {CULPRIT}") and note.endswith("alone it is PASS")
    assert results.exit_reason == f"workers died after {CULPRIT}, in cases that do not die alone"
    words = shlex.split(victim.reproduce)
    assert words[-6:] == ["--case", CULPRIT, "--case", AFTER, "--jobs", "1"]
    schema = json.loads((ROOT / "harness" / "results.schema.json").read_text())
    jsonschema.validate(json.loads(results.to_json()), schema)


def test_the_command_of_a_victim_shows_it_again(small_set: Path, flaky) -> None:
    results = run(small_set, flaky("-DPOISONS"), cases=(CULPRIT, AFTER))
    assert [case.suspect for case in results.cases] == [None, CULPRIT]
    assert run(small_set, flaky("-DPOISONS"), cases=(AFTER,)).exit_reason == ""


def test_a_culprit_dies_alone_too(small_set: Path, flaky) -> None:
    results = run(small_set, flaky("-DDIES"))
    assert by_id(results)[CULPRIT] is Outcome.CRASH
    [bad] = [case for case in results.cases if case.outcome is not Outcome.PASS]
    assert "(alone in a fresh worker, too)" in bad.message
    assert bad.suspect is None
    assert results.exit_reason == "1 CRASH"


def test_a_case_that_was_alone_is_not_run_again(small_set: Path, flaky) -> None:
    [bad] = run(small_set, flaky("-DDIES"), cases=(CULPRIT,)).cases
    assert bad.outcome is Outcome.CRASH
    assert "alone" not in bad.message


def test_a_victim_that_is_wrong_alone_is_wrong(small_set: Path, flaky) -> None:
    results = run(small_set, flaky("-DPOISONS", "-DWRONG=2"))  # wrong in the second run of every case
    [victim] = [case for case in results.cases if case.suspect]
    assert victim.outcome is Outcome.WRONG_VALUES
    assert "node_parent[0][1]" in victim.message and "suspect" in victim.message
    assert "workers died after" in results.exit_reason and "WRONG_VALUES" in results.exit_reason


@pytest.mark.parametrize("death", [FAULT, SLOW])
def test_device_faults_and_timeouts_are_parted_alike(scripted, death: Death) -> None:
    seen, made = scripted(3, FINE, death, FINE, FINE)  # the third answer is that of the case alone
    assert seen == [FINE, Victim(FINE, "tree_build/made/budget3", death), FINE]
    assert made == 2


def test_a_worker_is_replaced_after_a_guard_hit(scripted) -> None:
    """On a device as on the host: the bytes that were hit may be those of a later case."""
    hit = Observation("done", guard_hits=("node_token: 1 bytes changed",))
    seen, made = scripted(5, FINE, hit, FINE, hit, FINE)
    assert (seen, made) == ([FINE, hit, FINE, hit, FINE], 3)
    seen, made = scripted(2, hit, FAULT)  # nothing ran before in the second worker: no suspect
    assert (seen, made) == ([hit, FAULT], 2)


def test_what_a_case_alone_cannot_tell_is_left_as_it_was(scripted) -> None:
    error = Death(Outcome.HARNESS_ERROR, "cannot be run", replace=False)
    seen, _ = scripted(3, FINE, FAULT, error, FINE)
    assert seen[1] == Victim(error, "tree_build/made/budget3", FAULT)


def test_more_runs_find_a_rarer_flicker(small_set: Path, flaky) -> None:
    """One bit in every third call: two runs of the first case miss it, three cannot."""
    rare = flaky("-DBIT=3")
    for repeat, outcome in ((2, Outcome.PASS), (3, Outcome.NONDETERMINISTIC)):
        first = run(small_set, rare, kernels=("verify_attn",), repeat=repeat).cases[0]
        assert first.outcome is outcome, first.message
    assert first.message == "right, but out differ in a bit between 3 runs"
    assert "--repeat 3" in first.reproduce


def test_a_library_that_is_wrong_now_and_then(small_set: Path, flaky) -> None:
    first = run(small_set, flaky("-DWRONG=3"), repeat=3).cases[0]
    assert first.outcome is Outcome.WRONG_VALUES
    assert first.message.endswith("in run 3 only")


def test_totals_stay_whole(small_set: Path, flaky) -> None:
    for results in (run(small_set, flaky("-DPOISONS")), run(small_set, flaky("-DDIES"), kernels=())):
        assert sum(results.totals.values()) == results.planned == len(results.cases)
        assert failures(results) == tuple(results.exit_reason.split("; "))


class Blocked(Scripted):
    """The first one answers once, then hangs until it is killed; the second answers when that is so."""

    hanging, freed = threading.Event(), threading.Event()

    def result(self, seconds: float) -> Observation | Death:
        if self.number > 1:
            self.hanging.wait(30)
            return Observation("done", message="the last one")
        if self.answers:
            return self.answers.pop()
        self.hanging.set()
        self.freed.wait(30)
        return FAULT

    def kill(self) -> None:
        self.freed.set()


def test_a_case_that_dies_of_an_interruption_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(case: object, seen: object) -> None:
        if seen == Observation("done", message="the last one"):
            raise KeyboardInterrupt

    monkeypatch.setattr(supervisor, "Child", Blocked)
    Blocked.made, Blocked.answers = 0, [FINE]
    runner = Supervisor(Settings("reference", Options(), 2, 1.0))
    with pytest.raises(KeyboardInterrupt):
        runner.run(["5"] * 9, 2, lambda name: tree_case(int(name)), finish)
    assert Blocked.made == 2  # no third one, for the case alone
