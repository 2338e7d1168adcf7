"""The worker process: ``python -m harness.runner.worker IN OUT``, one target, one case at a time.

IN and OUT are inherited descriptors (see `harness.runner.wire`); what the target prints goes elsewhere.
It gets inputs only. It ends when IN does.
"""

from __future__ import annotations

import os
import sys

from harness.observation import Observation
from harness.replay import replay
from harness.runner import wire
from harness.runner.serving import frames, opened, report


def main(incoming: int, outgoing: int) -> None:
    """Open the target named by the first frame, then replay job after job."""
    target = opened(incoming, outgoing, lambda target: target)
    if target is None:
        return
    process = os.getpid()
    for message, payload in frames(incoming):
        job, repeat = wire.read_job(message, payload)
        seen: Observation | Exception
        try:
            seen = replay(target, job, repeat)
        except Exception as error:
            seen = error
        if os.getpid() != process:
            os._exit(0)  # a target forked and came back twice; one answer is enough
        if isinstance(seen, Exception):
            report(outgoing, seen)
        else:
            wire.send_observation(outgoing, seen)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
