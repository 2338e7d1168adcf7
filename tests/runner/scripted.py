"""Children without processes: what a supervisor sends them, and answers from a list."""

from __future__ import annotations

from typing import ClassVar

from harness.observation import Observation
from harness.results import Outcome
from harness.runner import wire
from harness.runner.child import Child, Death
from harness.targets import Options

FINE = Observation("done")
FAULT = Death(Outcome.CRASH, "device fault: cuMemcpyDtoH failed")
SLOW = Death(Outcome.TIMEOUT, "no answer")


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
