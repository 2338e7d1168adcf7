"""What every worker process does: open the target that its first frame names, say what went wrong."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TypeVar

from harness.errors import EnvironmentProblem, HarnessError, UsageProblem
from harness.runner import wire
from harness.targets import Options, Target, open_target

DEVICE_FAULT = 86  # exit code after a fault that leaves the device unusable for this process

T = TypeVar("T")


def opened(incoming: int, outgoing: int, server: Callable[[Target], T]) -> T | None:
    """What ``server`` makes of the target; None where it cannot be opened, which has been said then.

    The descriptors, and a core dump, are kept from what the target starts.
    """
    for fd in (incoming, outgoing):
        os.set_inheritable(fd, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    message, _ = wire.receive(incoming)
    try:
        target = open_target(message["target"], Options(**message["options"]))
        made = server(target)
    except UsageProblem as error:
        wire.send(outgoing, wire.framed({"error": "usage", "message": str(error)}))
    except EnvironmentProblem as error:
        wire.send(outgoing, wire.framed({"error": "environment", "message": str(error)}))
    except Exception as error:
        wire.send(outgoing, wire.framed({"error": "harness", "message": f"{type(error).__name__}: {error}"}))
    else:
        identity = target.identity
        wire.send(outgoing, wire.framed({"info": asdict(identity.info), "facts": dict(identity.facts)}))
        return made
    return None


def frames(incoming: int) -> Iterator[tuple[wire.Message, memoryview]]:
    """Request after request, until the other side closes."""
    while True:
        try:
            yield wire.receive(incoming)
        except wire.EndOfStream:
            return


def report(outgoing: int, error: Exception, kind: str = "case") -> None:
    """Say what went wrong. A device fault ends this process: every later call would fail for it alone."""
    fatal = bool(getattr(error, "fatal", False))
    known = isinstance(error, HarnessError) or kind != "case"
    text = str(error) if known else f"{type(error).__name__}: {error}"
    wire.send(outgoing, wire.framed({"error": "device" if fatal else kind, "message": text}))
    if fatal:
        os._exit(DEVICE_FAULT)
