"""The worker process in which mutants run, one after the other.

All kernel mutants are one library that reads the name of the acting one from a file at every call, so a
worker serves many of them. It is replaced after it died, hung or wrote outside its arrays, and for every
target in Python: what one mutant leaves behind must not kill the next.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.case import Case
from harness.judge import judge
from harness.mutants.model import Mutant
from harness.observation import Job
from harness.results import Outcome
from harness.runner.child import Child, Death
from harness.targets.base import Options

VARIABLE = "DDTREE_MUTANT"  # a mutant's name, or @ and a file that holds it
NOTHING = "nothing"  # the name of the right kernels


class Bench:
    """Runs cases on the mutant that was last put on it."""

    def __init__(self, library: Path, switch: Path, timeout: float) -> None:
        self.library, self._switch, self._timeout = library, switch, timeout
        self._child: Child | None = None
        self._target = ""
        self.deaths = 0  # of workers, since the mutant was put on

    def put(self, mutant: Mutant | None) -> None:
        """From now on cases run on ``mutant``, on the right kernels where it is None."""
        target = mutant.target if mutant is not None and mutant.target else str(self.library)
        if target != self._target or target != str(self.library):
            self.close()
        self._target, self.deaths = target, 0
        self._switch.write_text(NOTHING if mutant is None or mutant.target else mutant.name, encoding="utf-8")

    def run(self, case: Case) -> tuple[Outcome, str]:
        """Outcome and message of one case."""
        self._child = self._child or self._start()
        self._child.send(Job(case.kernel, case.inputs, case.scalars), 2)
        seen = self._child.result(self._timeout)
        if isinstance(seen, Death):
            if seen.replace:
                self.deaths += 1
                self.close()
            return seen.outcome, seen.message
        verdict = judge(case, seen)
        if verdict.outcome is Outcome.GUARD_HIT:
            self.close()
        return verdict.outcome, verdict.message

    def _start(self) -> Child:
        """A worker that finds the variable set; this process is left without it."""
        os.environ[VARIABLE] = f"@{self._switch}"
        try:
            return Child(self._target, Options())
        finally:
            del os.environ[VARIABLE]

    def close(self) -> None:
        """End the worker."""
        if self._child is not None:
            self._child.close()
        self._child = None
