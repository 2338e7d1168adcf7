"""What every target offers to a replay, and what it says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harness.errors import UsageProblem
from harness.observation import Job, Round
from harness.results import TargetInfo

ORDERS = ("forward", "reverse", "random:SEED")


@dataclass(frozen=True)
class Options:
    """How a target is to be run."""

    order: str | None = None  # thread order of an emulated target


@dataclass(frozen=True)
class Identity:
    """What a target says about itself, and on what it runs."""

    info: TargetInfo
    lse_base2: bool = False
    absent: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """A job that a target does not serve; the message starts with `DECLARED` where it says that it does."""

    message: str


class Target(Protocol):
    """An implementation under test, loaded into this process."""

    @property
    def identity(self) -> Identity:
        """Name, kind, memory space, capabilities, environment facts."""

    @property
    def poisons(self) -> bool:
        """True where outputs are filled with `buffers.POISONS` before each run."""

    def refusal(self, job: Job) -> Refusal | None:
        """Why the target does not serve this job, without running it; None where it does."""

    def run_round(self, job: Job, round_index: int) -> Round:
        """One run of the job on fresh buffers."""


def parse_order(text: str) -> tuple[str, int]:
    """``forward``, ``reverse`` or ``random:SEED`` -> (name, seed); UsageProblem for anything else."""
    name, _, seed = text.partition(":")
    if name in ("forward", "reverse") and not seed:
        return name, 0
    if name == "random" and seed.isdecimal() and int(seed) < 2**63:
        return name, int(seed)
    raise UsageProblem(f"--order is {text!r}; it can be {', '.join(ORDERS)}")
