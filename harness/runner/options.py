"""What to verify and how."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from harness.errors import UsageProblem
from harness.replay import MIN_REPEAT
from harness.runner.planning import parse_shard
from harness.shapes import kernel_named


@dataclass(frozen=True)
class VerifyOptions:
    """What to run and how. Empty selections mean everything."""

    kernels: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    require: tuple[str, ...] = ()  # kernels that must have a PASS besides those selected
    repeat: int = MIN_REPEAT
    timeout: float = 60.0  # seconds for all runs of one case
    order: str | None = None  # thread order of an emulated target
    jobs: int | None = None  # worker processes; default: one per core, one for device memory
    waivers: str | None = None  # a JSON or TOML file of known failures
    shard: str | None = None  # "i/n": every n-th case from the i-th on
    budget: float | None = None  # seconds after which no further case is begun

    def check(self) -> None:
        """UsageProblem where a value makes no sense, whatever the set and the target."""
        if self.repeat < MIN_REPEAT:
            raise UsageProblem(f"--repeat is {self.repeat}; two poisons need at least {MIN_REPEAT} runs")
        for name, seconds in (("timeout", self.timeout), ("budget", self.budget)):
            if seconds is not None and not (isfinite(seconds) and seconds > 0):
                raise UsageProblem(f"--{name} is {seconds:g}; it must be a positive number of seconds")
        for kernel in self.require:
            kernel_named(kernel)
        if self.shard is not None:
            parse_shard(self.shard)
