"""What stands in the channel of a busy worker: jobs sent ahead, stuck frames, channels that are lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from made import tree_case
from scripted import FAULT, FINE, Scripted

from harness.observation import Job, Observation
from harness.results import Outcome
from harness.runner import supervisor, wire
from harness.runner.child import Child, Death
from harness.runner.supervisor import Victim
from harness.targets import Options


def sent_to(number: int) -> bytes:
    """All that a scripted child was sent."""
    return b"".join(raw for child, raw in Scripted.taken if child == number)


def jobs(*names: int) -> bytes:
    cases = [tree_case(name) for name in names]
    return b"".join(p for c in cases for p in wire.job_frame(Job(c.kernel, c.inputs, c.scalars), 2))


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
