"""Worker processes and their supervisor: what dies or hangs stays one case's matter."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from made import HIT, tree_case

from harness.errors import FixtureError, HarnessError
from harness.observation import Job, Observation
from harness.results import Outcome
from harness.runner import supervisor
from harness.runner.child import Child, Death
from harness.runner.supervisor import Settings, Supervisor
from harness.targets import Options

SETTINGS = Settings("reference", Options(), repeat=2, timeout=30.0)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)


def test_a_child_answers_dies_and_is_replaced() -> None:
    case = tree_case(5)
    child = Child("bad_targets:Exits", Options())
    try:
        child.send(Job(case.kernel, case.inputs, case.scalars), 2)
        seen = child.result(30.0)
        assert isinstance(seen, Observation)
        assert seen.rounds[1] == {}
        spoiled = tree_case(HIT)
        child.send(Job(spoiled.kernel, spoiled.inputs, spoiled.scalars), 2)
        assert child.result(30.0) == Death(Outcome.CRASH, "the target ended its process with code 0")
        child.send(Job(case.kernel, case.inputs, case.scalars), 2)  # a pipe without a reader
        assert isinstance(child.result(30.0), Death)
    finally:
        child.close()


def test_a_case_the_worker_cannot_run_leaves_it_alive() -> None:
    case = tree_case(5)
    child = Child("cpu", Options())
    try:
        child.send(Job(case.kernel, case.inputs, {}), 2)
        seen = child.result(30.0)
        assert isinstance(seen, Death)
        assert seen == Death(Outcome.HARNESS_ERROR, "tree_build scalars: budget missing", replace=False)
        child.send(Job(case.kernel, case.inputs, case.scalars), 2)
        assert isinstance(child.result(30.0), Observation)
    finally:
        child.close()


def test_the_worker_gets_no_expected_values_and_no_surplus_descriptors() -> None:
    assert "expected" not in {field for field in vars(Job("k", {}, {}))}
    child = Child("reference", Options())
    try:
        links = [os.readlink(f"/proc/{child._process.pid}/fd/{fd}")
                 for fd in os.listdir(f"/proc/{child._process.pid}/fd")]  # fmt: skip
        assert not [link for link in links if link.endswith(".h5")]
        assert len([link for link in links if link.startswith("pipe:")]) == 4  # work, result, stdout, stderr
    finally:
        child.close()


def test_a_worker_that_never_stops_printing() -> None:
    """Its answer is seen all the same, and so is its deadline."""
    child = Child("bad_targets:Sleeps", Options())
    endless = os.open("/dev/zero", os.O_RDONLY)
    os.dup2(endless, child._log_fd)
    os.close(endless)
    try:
        for budget, outcome in ((5, "done"), (HIT, Outcome.TIMEOUT)):
            case = tree_case(budget)
            child.send(Job(case.kernel, case.inputs, case.scalars), 2)
            seen = child.result(2.0 if budget == HIT else 30.0)
            assert (seen.outcome if isinstance(seen, Death) else seen.status) == outcome
    finally:
        child.close()


def test_a_worker_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in a call of a driver that does not come back takes no signal."""
    child = Child("bad_targets:Sleeps", Options())
    case = tree_case(HIT)
    child.send(Job(case.kernel, case.inputs, case.scalars), 2)
    with monkeypatch.context() as patch:
        patch.setattr("harness.runner.child.END_TIMEOUT", 0.1)
        patch.setattr(os, "killpg", lambda pid, number: None)
        seen = child.result(0.5)
        assert isinstance(seen, Death) and seen.outcome is Outcome.TIMEOUT
        child.close()
    os.killpg(child._process.pid, signal.SIGKILL)
    child._process.wait()


def test_an_interruption_while_a_target_is_opened_leaves_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def interrupted(self: Child, seconds: float) -> None:
        started.append(self._process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(Child, "frame", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Child("reference", Options())
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def run(plan, finish=lambda case, seen: None, load=None, settings=SETTINGS, jobs=2) -> Supervisor:
    runner = Supervisor(settings)
    runner.run(plan, jobs, load or (lambda name: tree_case(int(name))), finish)
    return runner


def test_every_case_is_finished_once() -> None:
    done: list[str] = []
    run([str(n) for n in range(1, 13)], lambda case, seen: done.append(case.case_id))
    assert sorted(done) == sorted(tree_case(n).case_id for n in range(1, 13))


def test_a_damaged_set_ends_the_run() -> None:
    def load(name: str):
        if name == "3":
            raise FixtureError("damaged")
        return tree_case(int(name))

    with pytest.raises(FixtureError, match="damaged"):
        run([str(n) for n in range(1, 9)], load=load)
    assert not [t for t in threading.enumerate() if t.name.startswith("ThreadPool")]


def test_after_many_deaths_the_rest_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_DEATHS", 2)
    done: list[Outcome] = []
    settings = Settings("bad_targets:Aborts", Options(), 2, 30.0)
    runner = run([str(HIT)] * 6, lambda case, seen: done.append(seen.outcome), settings=settings, jobs=1)
    assert runner.stopped == "2 workers died"
    assert done == [Outcome.CRASH] * 2


def test_interruption_kills_the_workers() -> None:
    def finish(case, seen) -> None:
        raise KeyboardInterrupt

    runner = Supervisor(SETTINGS)
    pids = [child._process.pid for child in runner._children]
    with pytest.raises(KeyboardInterrupt):
        runner.run(["3", "4", "5"], 1, lambda name: tree_case(int(name)), finish)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_target_that_hangs_while_it_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.runner.child.START_SECONDS", 1.0)
    start = time.monotonic()
    with pytest.raises(HarnessError, match="slow:T cannot be opened: no answer within 2 s"):
        Child("slow:T", Options(), 1.0)
    with pytest.raises(HarnessError, match="no answer within 3 s"):
        Supervisor(Settings("slow:T", Options(), repeat=2, timeout=2.0))
    assert time.monotonic() - start < 20
