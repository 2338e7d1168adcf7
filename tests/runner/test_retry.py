"""Dead workers: the culprit is told from the victim, and nothing gets lost. Flaky libraries are found."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from pathlib import Path
from typing import ClassVar

import jsonschema
import numpy as np
import pytest
from bad_targets import HIT
from made import BUDGETS, tree_case

from harness.observation import Job, Observation
from harness.results import Outcome, Results
from harness.runner import supervisor, wire
from harness.runner.child import Child, Death
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


class Scripted(Child):
    """A child without a process, that answers from a list shared by all of its kind."""

    made = 0
    answers: ClassVar[list[Observation | Death]] = []
    takes: ClassVar[int] = 10**6  # bytes that a channel takes while the worker is busy
    killed: ClassVar[list[int]] = []
    taken: ClassVar[list[tuple[int, bytes]]] = []  # number of the child, what it was sent

    def __init__(self, target: str, options: Options, seconds: float) -> None:
        type(self).made += 1
        self.number = self.made

    def post(self, frame: wire.Frame, seconds: float = 0.0) -> None:
        self.taken.append((self.number, b"".join(frame)))

    def offer(self, frame: wire.Frame) -> wire.Frame:
        raw = b"".join(frame)
        self.taken.append((self.number, raw[: self.takes]))
        return [raw[self.takes :]] if len(raw) > self.takes else []

    def result(self, seconds: float) -> Observation | Death:
        return self.answers.pop(0)

    def kill(self) -> None:
        self.killed.append(self.number)

    def close(self) -> None:
        pass


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch):
    def play(
        count: int, *answers: Observation | Death, budget: float | None = None
    ) -> tuple[list[object], int]:
        monkeypatch.setattr(supervisor, "Child", Scripted)
        Scripted.made, Scripted.answers = 0, list(answers)
        Scripted.taken.clear()
        Scripted.killed.clear()
        seen: list[object] = []
        cases = [str(n) for n in range(3, 3 + count)]
        runner = Supervisor(Settings("reference", Options(), 2, 1.0, budget))
        runner.run(cases, 1, lambda name: tree_case(int(name)), lambda case, what: seen.append(what))
        return seen, Scripted.made

    return play


def sent_to(number: int) -> bytes:
    """All that a scripted child was sent."""
    return b"".join(raw for child, raw in Scripted.taken if child == number)


def jobs(*names: int) -> bytes:
    cases = [tree_case(name) for name in names]
    return b"".join(p for c in cases for p in wire.job_frame(Job(c.kernel, c.inputs, c.scalars), 2))


FINE = Observation("done")
FAULT = Death(Outcome.CRASH, "device fault: cuMemcpyDtoH failed")
SLOW = Death(Outcome.TIMEOUT, "no answer")


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


STUCK = """
import os, sys, time
from harness.runner import wire, worker
real = wire.send_observation
{patch}
worker.main(int(sys.argv[1]), int(sys.argv[2]))
"""
HALF = """
def half(fd, seen):
    os.write(fd, wire._HEAD.pack(b"ddt1", 100, 0) + b"{")
    time.sleep(600)
wire.send_observation = half
"""
DEAF = """
def deaf(fd, seen):
    real(fd, seen)
    time.sleep(600)
wire.send_observation = deaf
"""


@pytest.mark.parametrize("patch", [HALF, DEAF])
def test_a_worker_that_gets_stuck_in_a_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patch: str
) -> None:
    """It answers half, or takes no further job: the deadline still counts."""
    (tmp_path / "stuck.py").write_text(STUCK.format(patch=patch))
    for name in ("SEND_TIMEOUT", "FRAME_TIMEOUT"):
        monkeypatch.setattr(f"harness.runner.child.{name}", 2.0)
    real, script = subprocess.Popen, str(tmp_path / "stuck.py")
    monkeypatch.setattr(
        "harness.runner.child.subprocess.Popen",
        lambda command, **more: real([command[0], script, *command[3:]], **more),
    )
    case = tree_case(5)
    large = {**case.inputs, "filling": np.zeros(1 << 20, np.uint8)}
    child = Child("reference", Options())
    try:
        child.send(Job(case.kernel, case.inputs, case.scalars), 2)
        if patch is DEAF:
            assert isinstance(child.result(20.0), Observation)
            child.send(Job(case.kernel, large, case.scalars), 2)
        seen = child.result(1.0)
        assert isinstance(seen, Death) and seen.outcome is Outcome.TIMEOUT
    finally:
        child.close()


@pytest.mark.parametrize("takes", [10**6, 1000, 0])
def test_the_job_after_stands_in_the_channel_of_a_busy_worker(
    scripted, monkeypatch: pytest.MonkeyPatch, takes: int
) -> None:
    monkeypatch.setattr(Scripted, "takes", takes)
    assert scripted(3, FINE, FINE, FINE) == ([FINE] * 3, 1)
    assert sent_to(1) == jobs(3, 4, 5)
    first = Scripted.taken[1][1]  # what went ahead while the first case ran
    assert first == jobs(4)[:takes]


@pytest.mark.parametrize("takes", [10**6, 1000, 0])
def test_a_job_that_stood_in_a_lost_channel_is_sent_again(
    scripted, monkeypatch: pytest.MonkeyPatch, takes: int
) -> None:
    monkeypatch.setattr(Scripted, "takes", takes)
    hit = Observation("done", guard_hits=("x: 1 byte",))
    assert scripted(3, hit, FAULT, FINE) == ([hit, FAULT, FINE], 3)
    assert sent_to(1) == jobs(3) + jobs(4)[:takes]
    assert sent_to(2) == jobs(4) + jobs(5)[:takes]
    assert sent_to(3) == jobs(5)


def test_a_job_after_a_victim_goes_to_the_worker_that_ran_it(scripted) -> None:
    seen, made = scripted(3, FINE, FAULT, FINE, FINE)
    assert (made, [type(what) for what in seen]) == (2, [Observation, Victim, Observation])
    assert sent_to(2) == jobs(4, 5)  # the victim again, alone, and then what stood behind it


def test_a_worker_with_a_job_that_nobody_waits_for_is_ended(
    scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 99.0])  # the budget is used while the first case runs
    monkeypatch.setattr(supervisor, "monotonic", lambda: next(clock))
    assert scripted(3, FINE, budget=10.0) == ([FINE], 1)
    assert sent_to(1) == jobs(3, 4)
    assert Scripted.killed == [1]
    assert scripted(1, FINE) == ([FINE], 1)
    assert Scripted.killed == []


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


def test_a_channel_takes_what_it_can_and_no_more() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    frame: wire.Frame = [b"a" * 10, memoryview(bytes(range(256)) * 4096), b"z" * 5]
    rest = wire.offer(writing, frame)
    got = bytearray()
    while rest:
        got += os.read(reading, 1 << 20)
        rest = wire.offer(writing, rest)
    got += os.read(reading, 1 << 20)
    assert bytes(got) == b"".join(frame)
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        wire.offer(writing, frame)
    os.close(writing)
