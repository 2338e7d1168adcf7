"""The commands that a run prints: itself, and each case alone."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.replay import MIN_REPEAT
from harness.runner.naming import relative, relative_target
from harness.runner.options import VerifyOptions
from harness.runner.supervisor import Settings


@dataclass(frozen=True)
class Commands:
    """How to start a verify of this set and target; ``program`` is how the harness was started."""

    program: str
    folder: Path
    settings: Settings

    def reproduce(self, case_id: str, suspect: str | None = None) -> str:
        """The command that runs one case alone, or after its suspect in one worker."""
        if suspect is None:
            return self._verify("--case", case_id)
        return self._verify("--case", suspect, "--case", case_id, "--jobs", "1")

    def run(self, options: VerifyOptions) -> str:
        """The command of a whole run."""
        named = (("-k", options.kernels), ("--flag", options.flags), ("--case", options.cases))
        more = [word for name, values in named for value in values for word in (name, value)]
        more += [word for kernel in options.require for word in ("--require", kernel)]
        for name, value in (("--waivers", options.waivers), ("--shard", options.shard)):
            more += [] if value is None else [name, value]
        if options.budget is not None:
            more += ["--budget", f"{options.budget:g}"]
        return self._verify(*more)

    def _verify(self, *more: str) -> str:
        return f"{self._start} {shlex.join(more)}".rstrip()

    @cached_property
    def _start(self) -> str:
        words = [*shlex.split(self.program), "verify", relative(self.folder)]
        words += ["--target", relative_target(self.settings.target)]
        if self.settings.options.order is not None:
            words += ["--order", self.settings.options.order]
        if self.settings.repeat != MIN_REPEAT:
            words += ["--repeat", str(self.settings.repeat)]
        return shlex.join(words)
