"""The worker process: ``python -m harness.runner.worker IN OUT``, one target, one case at a time.

IN and OUT are inherited descriptors (see `harness.runner.wire`); what the target prints goes elsewhere.
It gets inputs only. It ends when IN does.
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import asdict
from typing import Any

from harness.errors import EnvironmentProblem, HarnessError, UsageProblem
from harness.observation import Observation
from harness.replay import replay
from harness.runner import wire
from harness.targets import Options, Target, open_target

DEVICE_FAULT = 86  # exit code after a fault that leaves the device unusable for this process


def main(incoming: int, outgoing: int) -> None:
    """Open the target named by the first frame, then replay job after job."""
    for fd in (incoming, outgoing):
        os.set_inheritable(fd, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    target = _opened(incoming, outgoing)
    process = os.getpid()
    while target is not None:
        try:
            message, payload = wire.receive(incoming)
        except wire.EndOfStream:
            return
        job, repeat = wire.read_job(message, payload)
        seen: Observation | Exception
        try:
            seen = replay(target, job, repeat)
        except Exception as error:
            seen = error
        if os.getpid() != process:
            os._exit(0)  # a target forked and came back twice; one answer is enough
        if isinstance(seen, Exception):
            _report(outgoing, seen)
        else:
            wire.send_observation(outgoing, seen)


def _opened(incoming: int, outgoing: int) -> Target | None:
    message, _ = wire.receive(incoming)
    try:
        target = open_target(message["target"], Options(**message["options"]))
    except UsageProblem as error:
        wire.send(outgoing, {"error": "usage", "message": str(error)})
    except EnvironmentProblem as error:
        wire.send(outgoing, {"error": "environment", "message": str(error)})
    except Exception as error:
        wire.send(outgoing, {"error": "harness", "message": f"{type(error).__name__}: {error}"})
    else:
        wire.send(outgoing, _hello(target))
        return target
    return None


def _hello(target: Target) -> dict[str, Any]:
    return {"info": asdict(target.identity.info), "facts": dict(target.identity.facts)}


def _report(outgoing: int, error: Exception) -> None:
    """Say what went wrong. A device fault ends this process: every later call would fail for it alone."""
    fatal = bool(getattr(error, "fatal", False))
    kind = str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
    wire.send(outgoing, {"error": "device" if fatal else "case", "message": kind})
    if fatal:
        os._exit(DEVICE_FAULT)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
