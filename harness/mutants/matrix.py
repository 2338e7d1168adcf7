"""The kill matrix as data: what `mutants.json` holds, what it comes to, and how it is read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import harness
from harness.mutants.bench import VARIABLE
from harness.mutants.build import library_path
from harness.mutants.faults import FAULTS
from harness.mutants.model import Fate, Mutant
from harness.runner.naming import relative_target
from harness.typed_json import build, load

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
            "faults": {name: asdict(_listed(name)) for name in FAULTS if name in faults},
            "mutants": [_row(fate, self.target) for fate in self.fates],
            "not_run": [asdict(mutant) for mutant in self.not_run],
        }


def survivors_first(fates: Sequence[Fate]) -> tuple[Fate, ...]:
    """By verdict, then in the order of the catalogue."""
    return tuple(sorted(fates, key=lambda fate: _ORDER.index(fate.verdict)))


@dataclass(frozen=True)
class _Listed:
    """What the matrix says of a class of fault."""

    title: str
    part: str
    flags: tuple[str, ...]
    links: tuple[str, ...]


def _listed(name: str) -> _Listed:
    fault = FAULTS[name]
    return _Listed(fault.title, fault.part, fault.flags, fault.links)


def _row(fate: Fate, target: str) -> dict[str, Any]:
    return {
        **{key: value for key, value in asdict(fate.mutant).items() if key != "needs"},
        "verdict": fate.verdict,
        "families": {name: None if kill is None else asdict(kill) for name, kill in fate.families.items()},
        "cases": fate.cases,
        "seconds": fate.seconds,
        "reproduce": reproduce(fate, target),
    }


def reproduce(fate: Fate, target: str) -> str:
    """The command that shows the kill that counts again; nothing where there is none."""
    kills = [kill for kill in fate.families.values() if kill is not None]
    if not kills:
        return ""
    kill = min(kills, key=lambda k: not k.claimed)
    mutant = fate.mutant
    variable = "" if mutant.target else f"{VARIABLE}={mutant.name} "
    library = mutant.target or relative_target(str(library_path(target)))
    return f"{variable}harness verify fixtures/standard --target {library} --case '{kill.case_id}'"


def load_matrix(path: Path) -> dict[str, Any]:
    """The body of ``mutants.json``. UsageProblem where it is not one of a known version, or damaged.

    The body and no `Matrix`: its classes of fault and its version are those of the harness that wrote it.
    """
    return load(path, SCHEMA, VERSION, "harness mutants", "matrix", _checked)


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    derived = ("schema", "schema_version", "harness_version", "totals", "exit_reason", "faults", "mutants")
    own = {name: value for name, value in body.items() if name not in derived}
    made: Matrix = build(Matrix, {**own, "fates": [_fate_body(row) for row in body["mutants"]]})
    build(str, body["harness_version"])
    build(Mapping[str, _Listed], body["faults"])
    if body["totals"] != made.totals or body["exit_reason"] != "; ".join(made.reasons):
        raise ValueError("the totals are not those of the mutants")
    if [row["verdict"] for row in body["mutants"]] != [fate.verdict for fate in made.fates]:
        raise ValueError("a verdict is not that of its kills")
    return body


def _fate_body(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as `Fate` has it: what `_row` leaves out is empty."""
    build(str, row["reproduce"])
    mutant = {field.name: row[field.name] for field in fields(Mutant) if field.name != "needs"}
    derived = ("verdict", "reproduce")
    own = {name: value for name, value in row.items() if name not in (*mutant, *derived)}
    return {**own, "mutant": {**mutant, "needs": ""}, "faults": []}
