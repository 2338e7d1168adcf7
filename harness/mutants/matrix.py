"""The kill matrix as data: what `mutants.json` holds, and what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import harness
from harness.mutants.faults import FAULTS
from harness.mutants.model import Fate, Mutant

SCHEMA, VERSION = "ddtree-mutants", 1
_ORDER = ("survived", "unclaimed", "killed")


@dataclass(frozen=True)
class Matrix:
    """All fates of one campaign, survivors first."""

    target: str
    suite: str
    cases: int  # of the set
    time: str
    seconds: float
    command: str
    fates: tuple[Fate, ...]
    not_run: tuple[Mutant, ...]
    environment: Mapping[str, str]  # machine, device, hashes of library and set

    @property
    def totals(self) -> dict[str, int]:
        """Mutants by verdict, and those that were not run."""
        counted = Counter(fate.verdict for fate in self.fates)
        return {**{verdict: counted[verdict] for verdict in _ORDER}, "not_run": len(self.not_run)}

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this is no success, in words; empty where every mutant that ran died of its own class."""
        names = {v: [f.mutant.name for f in self.fates if f.verdict == v] for v in _ORDER[:2]}
        lines = [
            f"{len(names[v])} {words}: {', '.join(names[v][:8])}{' ...' if len(names[v]) > 8 else ''}"
            for v, words in (
                ("survived", "survived"),
                ("unclaimed", "killed by no case that claims the class"),
            )
            if names[v]
        ]
        return tuple(lines) if self.fates else ("no mutant ran",)

    @property
    def harness_faults(self) -> tuple[str, ...]:
        """Cases that the harness could not run or judge, by mutant."""
        return tuple(f"{fate.mutant.name}: {line}" for fate in self.fates for line in fate.faults)

    def to_json(self) -> dict[str, Any]:
        """The body of ``mutants.json``."""
        faults = {fate.mutant.fault for fate in self.fates} | {mutant.fault for mutant in self.not_run}
        return {
            "schema": SCHEMA,
            "schema_version": VERSION,
            "target": self.target,
            "suite": self.suite,
            "cases": self.cases,
            "time": self.time,
            "seconds": self.seconds,
            "command": self.command,
            "environment": dict(self.environment),
            "harness_version": harness.__version__,
            "totals": self.totals,
            "exit_reason": "; ".join(self.reasons),
            "faults": {name: _fault(name) for name in FAULTS if name in faults},
            "mutants": [_row(fate) for fate in self.fates],
            "not_run": [asdict(mutant) for mutant in self.not_run],
        }


def survivors_first(fates: Sequence[Fate]) -> tuple[Fate, ...]:
    """By verdict, then in the order of the catalogue."""
    return tuple(sorted(fates, key=lambda fate: _ORDER.index(fate.verdict)))


def _fault(name: str) -> Mapping[str, Any]:
    fault = FAULTS[name]
    return {"title": fault.title, "part": fault.part, "flags": list(fault.flags), "links": list(fault.links)}


def _row(fate: Fate) -> dict[str, Any]:
    return {
        **{key: value for key, value in asdict(fate.mutant).items() if key != "needs"},
        "verdict": fate.verdict,
        "families": {name: None if kill is None else asdict(kill) for name, kill in fate.families.items()},
        "cases": fate.cases,
        "seconds": fate.seconds,
        "reproduce": fate.reproduce,
    }
