"""The worker process of a bench: ``python -m harness.bench.worker IN OUT``, one target, one case at a time.

Frames as in `harness.runner.wire`. Each request is ``{"do": VERB, ..}``; the answer is an observation, or an
object with what was asked for, or ``{"error": KIND, "message": TEXT}``.
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import asdict
from typing import Any

from harness.bench.device import DeviceTools
from harness.bench.python_session import PythonSession
from harness.bench.session import CallFailed, LibrarySession, Session, tools_of
from harness.errors import EnvironmentProblem, HarnessError, UsageProblem
from harness.observation import Observation
from harness.runner import wire
from harness.targets import Options, Target, open_target
from harness.targets.library_target import LibraryTarget

DEVICE_FAULT = 86  # exit code after a fault that leaves the device unusable for this process

Answer = dict[str, Any] | Observation


class Server:
    """The target, and the case that is loaded."""

    def __init__(self, target: Target, tools: DeviceTools | None) -> None:
        self._target, self._tools = target, tools
        self._session: Session | None = None

    def answer(self, message: wire.Message, payload: bytearray) -> Answer:
        """What a request comes to."""
        verb = message["do"]
        if verb == "load":
            return self._load(message, payload)
        if verb == "device":
            if self._tools is None:
                return {"bandwidth": None, "bus_id": ""}
            return {"bandwidth": self._tools.copy_bandwidth(), "bus_id": self._tools.bus_id}
        if self._session is None:
            raise HarnessError(f"{verb} without a case")
        if verb == "arrange":
            made = self._session.arrange(message["cache"], message["touched"], message["calls"])
            return {"arrangement": asdict(made)}
        if verb == "sample":
            return {"seconds": self._session.sample(message["count"], message["discard"], message["fresh"])}
        if verb == "stages":
            return {"stages": self._session.stages(message["count"])}
        return self._session.check() if verb == "check" else self._session.left()

    def _load(self, message: wire.Message, payload: bytearray) -> Answer:
        self._session = None  # its buffers go before new ones come
        job, _ = wire.read_job(message, payload)
        refusal = self._target.refusal(job)
        if refusal is not None:
            return {"refused": refusal.message}
        if isinstance(self._target, LibraryTarget):
            self._session = LibrarySession(self._target, job, self._tools)
        else:
            self._session = PythonSession(self._target, job)
        return {"refused": None}


def main(incoming: int, outgoing: int) -> None:
    """Open the target named by the first frame, then answer request after request until IN ends."""
    for fd in (incoming, outgoing):
        os.set_inheritable(fd, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    server = _opened(incoming, outgoing)
    while server is not None:
        try:
            message, payload = wire.receive(incoming)
        except wire.EndOfStream:
            return
        try:
            found = server.answer(message, payload)
        except Exception as error:
            _report(outgoing, error)
            continue
        if isinstance(found, Observation):
            wire.send_observation(outgoing, found)
        else:
            wire.send(outgoing, found)


def _opened(incoming: int, outgoing: int) -> Server | None:
    message, _ = wire.receive(incoming)
    try:
        target = open_target(message["target"], Options(**message["options"]))
        tools = tools_of(target)
    except UsageProblem as error:
        wire.send(outgoing, {"error": "usage", "message": str(error)})
    except EnvironmentProblem as error:
        wire.send(outgoing, {"error": "environment", "message": str(error)})
    except Exception as error:
        wire.send(outgoing, {"error": "harness", "message": f"{type(error).__name__}: {error}"})
    else:
        facts = dict(target.identity.facts)
        wire.send(outgoing, {"info": asdict(target.identity.info), "facts": facts})
        return Server(target, tools)
    return None


def _report(outgoing: int, error: Exception) -> None:
    """Say what went wrong. A device fault ends this process: every later call would fail for it alone."""
    fatal = bool(getattr(error, "fatal", False))
    kind = "device" if fatal else "failed" if isinstance(error, CallFailed) else "case"
    known = isinstance(error, HarnessError | CallFailed)
    text = str(error) if known else f"{type(error).__name__}: {error}"
    wire.send(outgoing, {"error": kind, "message": text})
    if fatal:
        os._exit(DEVICE_FAULT)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
