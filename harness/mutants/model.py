"""What a fault class, a mutant and its fate are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.results import Outcome

EVERYWHERE = "*"  # a claim of every family: the mutant is wrong wherever it is run


@dataclass(frozen=True)
class Fault:
    """One class of fault, in words.

    ``flags`` claim it: a kernel with this fault must fail a case that carries one of them. ``tests`` hold it
    where no case can. ``outside`` says why contract 1.0 cannot meet it. ``links`` are public threads.
    """

    title: str
    part: str
    flags: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    outside: str = ""


@dataclass(frozen=True)
class Mutant:
    """One wrong kernel or target.

    ``flags`` are those of the fault's claims that must catch it, `EVERYWHERE` for all families of its
    kernels. ``target`` is ``module:Class`` for a target in Python. ``needs`` is what the emulator does not
    have; such a mutant is listed there and not run.
    """

    name: str
    kernel: str
    fault: str
    flags: tuple[str, ...]
    what: str
    target: str = ""
    needs: str = ""

    def runs_on(self, target: str) -> bool:
        """True where the mutant is another program than the right kernels."""
        return target == "cuda" or not self.needs


@dataclass(frozen=True)
class Kill:
    """The first case of a family that a mutant fails."""

    case_id: str
    outcome: Outcome
    message: str
    claimed: bool


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: by ``kernel/family``, the kill or None where the cases tried were passed."""

    mutant: Mutant
    families: Mapping[str, Kill | None]
    cases: int
    seconds: float
    faults: tuple[str, ...] = ()  # of the harness: cases that could not be judged

    @property
    def killed(self) -> bool:
        """True where any case failed."""
        return any(kill is not None for kill in self.families.values())

    @property
    def claimed(self) -> bool:
        """True where a case failed that claims the class; for `EVERYWHERE`, one of every family."""
        if EVERYWHERE in self.mutant.flags:
            return bool(self.families) and all(kill is not None for kill in self.families.values())
        return any(kill is not None and kill.claimed for kill in self.families.values())

    @property
    def verdict(self) -> str:
        """``killed``, ``unclaimed`` (killed, but not by a case that claims its class) or ``survived``."""
        return "killed" if self.claimed else "unclaimed" if self.killed else "survived"
