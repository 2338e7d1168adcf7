"""One worker process as its supervisor sees it: spawned, spoken to with a deadline, buried with a reason."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import harness
from harness.errors import EnvironmentProblem, HarnessError, UsageProblem
from harness.observation import Job, Observation
from harness.results import Outcome, TargetInfo
from harness.runner import wire
from harness.targets import worker_environment
from harness.targets.base import Options

LOG_CAP = 1 << 16  # bytes of a worker's output that are kept, the last ones
_PIPE = 1 << 20  # bytes; no less than what a pipe may hold
START_SECONDS = 20.0  # a worker's own start: interpreter, libraries, the context of a device
SEND_TIMEOUT = 120.0  # a worker that does not take its job
FRAME_TIMEOUT = 30.0  # the rest of an answer that has begun
END_TIMEOUT = 10.0  # a tool around the worker writes its summary while the worker ends
# Lines of a sanitizer that say what it found; the last lines of its reports say nothing.
_FINDINGS = ("ERROR: AddressSanitizer", "WARNING: ThreadSanitizer", "runtime error:", "SUMMARY: ")
_ERRORS = {"usage": UsageProblem, "environment": EnvironmentProblem}


@dataclass(frozen=True)
class Death:
    """The end of a worker, or a case that it could not run. ``replace``: another worker is needed."""

    outcome: Outcome
    message: str
    replace: bool = True


@dataclass(frozen=True)
class Hello:
    """What a worker's target says about itself."""

    info: TargetInfo
    facts: dict[str, str]


class Child:
    """A worker with its target open; opening it may take ``seconds``.

    UsageProblem, EnvironmentProblem, HarnessError where the target cannot be opened.
    """

    module = "harness.runner.worker"  # what the process runs

    def __init__(self, target: str, options: Options, seconds: float = 60.0) -> None:
        work_read, self._work = os.pipe()
        self._result, result_write = os.pipe()
        log_read, log_write = os.pipe()
        self._log_fd, self._log = log_read, bytearray()
        self._logs = [log_read]  # empty once the worker has closed its output
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, str(work_read), str(result_write)],
                stdin=subprocess.DEVNULL,
                stdout=log_write,
                stderr=log_write,
                pass_fds=(work_read, result_write),
                start_new_session=True,
                env=_environment(target),
            )
        finally:
            for fd in (work_read, result_write, log_write):
                os.close(fd)
        for fd in (self._log_fd, self._work, self._result):
            os.set_blocking(fd, False)
        try:
            self.hello = self._greet(target, options, START_SECONDS + seconds)
        except BaseException:  # Ctrl-C too: no one else knows of the process
            self.kill()
            self.close()
            raise

    def send(self, job: Job, repeat: int) -> None:
        """Hand over a job."""
        self.post(wire.job_frame(job, repeat))

    def result(self, seconds: float) -> Observation | Death:
        """Wait until ``seconds`` from now for what became of the job."""
        frame = self.frame(seconds)
        if isinstance(frame, Death):
            return frame
        message, payload = frame
        kind, text = message.get("error"), str(message.get("message", ""))
        if kind == "case":
            return Death(Outcome.HARNESS_ERROR, text, replace=False)
        if kind == "device":
            return Death(Outcome.CRASH, f"device fault: {text}")
        try:
            return wire.read_observation(message, payload)
        except wire.WireError as error:
            self.kill()
            return Death(Outcome.CRASH, f"the worker's answers are damaged: {error}")

    def kill(self) -> None:
        """End the process and everything it started, now. One that is stuck in a driver is left behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=END_TIMEOUT)

    def close(self) -> None:
        """Let the worker end; kill it where it does not."""
        for fd in (self._work, self._result):
            os.close(fd)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=END_TIMEOUT)
        self.kill()  # also what a target started and left behind
        os.close(self._log_fd)

    def post(self, frame: wire.Frame, seconds: float | None = None) -> None:
        """Send one frame, in `SEND_TIMEOUT` at most. `frame` shows a worker that is gone or reads no more."""
        with contextlib.suppress(OSError):
            deadline = time.monotonic() + (SEND_TIMEOUT if seconds is None else seconds)
            wire.send(self._work, frame, deadline)

    def offer(self, frame: wire.Frame) -> wire.Frame:
        """Send as much of a frame as the worker's channel takes while it is busy; the rest, for `post`."""
        with contextlib.suppress(OSError):
            return wire.offer(self._work, frame)
        return []

    def _greet(self, target: str, options: Options, seconds: float) -> Hello:
        self.post(wire.framed({"target": target, "options": asdict(options)}))
        frame = self.frame(seconds)
        if not isinstance(frame, Death) and "error" not in frame[0]:
            info = frame[0]["info"]
            info = TargetInfo(**{**info, "capabilities": tuple(info["capabilities"])})
            return Hello(info, frame[0]["facts"])
        if isinstance(frame, Death):
            raise EnvironmentProblem(f"target {target} cannot be opened: {frame.message}")
        raise _ERRORS.get(frame[0]["error"], HarnessError)(frame[0]["message"])

    def frame(self, seconds: float) -> tuple[wire.Message, memoryview] | Death:
        """Wait ``seconds`` for a frame, and somewhat longer for the rest of one that has begun."""
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._result, *self._logs], [], [], left)
            if self._log_fd in ready:
                self._drain()
            if self._result in ready:
                try:
                    return wire.receive(self._result, max(deadline, time.monotonic() + FRAME_TIMEOUT))
                except TimeoutError:
                    ready = []
                except (wire.EndOfStream, wire.WireError, OSError):
                    return self._end()
            if not ready or not left:
                self.kill()
                return Death(Outcome.TIMEOUT, f"no answer within {seconds:g} s; the worker was killed")

    def _end(self) -> Death:
        """The process closed its end: say how it died, and what it last wrote."""
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self.kill()
            return Death(Outcome.CRASH, "the worker closed its channel and was killed" + self._tail())
        if code < 0:
            return Death(Outcome.CRASH, f"killed by {_signal_name(-code)}" + self._tail())
        who = "the target ended its process" if code == 0 else "the worker exited"
        return Death(Outcome.CRASH, f"{who} with code {code}" + self._tail())

    def _drain(self) -> None:
        """Take in what the worker wrote so far. Not until nothing is left: it may write for ever."""
        try:
            data = os.read(self._log_fd, _PIPE)
        except BlockingIOError:
            return
        if not data:
            self._logs.clear()
        self._log += data
        del self._log[:-LOG_CAP]

    def _tail(self) -> str:
        self._drain()
        lines = [line.strip() for line in self._log.decode("utf-8", "replace").splitlines() if line.strip()]
        findings = [line for line in lines if any(mark in line for mark in _FINDINGS)]
        shown = findings[-3:] or lines[-6:]
        return f"; last output: {' | '.join(shown)[-600:]}" if shown else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _environment(target: str) -> dict[str, str]:
    """This environment, with this package importable and one thread per numeric library."""
    root = str(
        Path(harness.__file__).resolve().parents[1]
    )  # its first __path__ may be that of an editable install
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = {name: os.environ.get(name, "1") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    return {**os.environ, **threads, **worker_environment(target), "PYTHONPATH": os.pathsep.join(paths)}
