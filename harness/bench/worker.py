"""The worker process of a bench: ``python -m harness.bench.worker IN OUT``, one target, one case at a time.

Frames as in `harness.runner.wire`. Each request is ``{"do": VERB, ..}``; the answer is an observation, or an
object with what was asked for, or ``{"error": KIND, "message": TEXT}``.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from harness.bench.device import DeviceTools
from harness.bench.profiler import recorded, spans_of
from harness.bench.python_session import PythonSession
from harness.bench.session import CallFailed, LibrarySession, Session, tools_of
from harness.errors import HarnessError
from harness.observation import Observation
from harness.runner import wire
from harness.runner.serving import frames, opened, report
from harness.targets import Target
from harness.targets.library_target import LibraryTarget

Answer = dict[str, Any] | Observation


class Server:
    """The target, and the case that is loaded."""

    def __init__(self, target: Target, tools: DeviceTools | None) -> None:
        self._target, self._tools = target, tools
        self._session: Session | None = None

    def answer(self, message: wire.Message, payload: memoryview) -> Answer:
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
        if verb == "spans":
            return {"spans": self._spans(self._session, message["cache"], message["calls"])}
        return self._session.check() if verb == "check" else self._session.left()

    def _spans(self, session: Session, cache: str, calls: int) -> list[dict[str, Any]]:
        session.sample(1, 0, True)  # all buffers are written and used once before the profiler looks
        launches, made = recorded(lambda: session.alone(calls))
        return [asdict(span) for span in spans_of(launches, cache, made)]

    def _load(self, message: wire.Message, payload: memoryview) -> Answer:
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
    server = opened(incoming, outgoing, lambda target: Server(target, tools_of(target)))
    if server is None:
        return
    for message, payload in frames(incoming):
        try:
            found = server.answer(message, payload)
        except Exception as error:
            report(outgoing, error, "failed" if isinstance(error, CallFailed) else "case")
            continue
        if isinstance(found, Observation):
            wire.send_observation(outgoing, found)
        else:
            wire.send(outgoing, wire.framed(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
