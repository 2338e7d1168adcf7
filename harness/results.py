"""The truth of a run: `results.json`, from which every report is rendered.

Frozen dataclasses with a versioned JSON form; relative paths, no host or user names. The JSON schema is
``harness/results.schema.json`` and is checked in the tests. Nothing here decides or prints.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.typed_json import build, load

RESULTS_SCHEMA = "ddtree-results"
RESULTS_VERSION = 1


class Outcome(StrEnum):
    """The verdict on one case."""

    PASS = "PASS"
    WRONG_VALUES = "WRONG_VALUES"
    WRONG_SHAPE = "WRONG_SHAPE"
    UNWRITTEN = "UNWRITTEN"
    GUARD_HIT = "GUARD_HIT"
    INPUT_MUTATED = "INPUT_MUTATED"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    BUILD_ERROR = "BUILD_ERROR"
    UNSUPPORTED = "UNSUPPORTED"
    WAIVED = "WAIVED"
    XPASS = "XPASS"
    NOT_RUN = "NOT_RUN"
    HARNESS_ERROR = "HARNESS_ERROR"


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element: where, and what was expected and got (as text, exact)."""

    array: str
    index: tuple[int, ...]
    expected: str
    got: str
    wrong: int  # wrong elements in this array
    total: int  # elements in this array


@dataclass(frozen=True)
class TreePicture:
    """What a report draws for a failed case: one request's tree with expected and actual path."""

    request: int
    parent: tuple[int, ...]
    token: tuple[int, ...]
    expected_path: tuple[int, ...]
    actual_path: tuple[int, ...]


@dataclass(frozen=True)
class CaseResult:
    """One case of a run."""

    case_id: str
    kernel: str
    family: str
    flags: tuple[str, ...]
    outcome: Outcome
    policy: str
    message: str  # one line: why; of a PASS, what was not compared or whom to suspect
    share: float | None  # largest share of an allowance used; None where every output is exact
    seconds: float | None  # one call of the target; event time on cuda
    reproduce: str  # the command that replays this case alone
    mismatch: Mismatch | None = None
    tree: TreePicture | None = None
    dims: Mapping[str, int] = field(default_factory=dict)  # B, N, L, K, ... where the kernel has them
    suspect: str | None = None  # the case that ran before in a worker that died here, but not here alone


@dataclass(frozen=True)
class RunInfo:
    """When and how."""

    time: str  # ISO 8601, UTC
    command: str
    suite: str
    fixtures: str
    harness_version: str
    contract_version: str
    fixture_hash: str
    seconds: float
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Environment:
    """On what. Values are text; keys are shown as they are."""

    facts: Mapping[str, str]


@dataclass(frozen=True)
class TargetInfo:
    """Which implementation."""

    name: str  # as given on the command line
    kind: str  # reference | library | python
    description: str
    memory: str  # host | device
    timing: str  # "event" | "emulated" | "host clock"
    capabilities: tuple[str, ...]
    library_sha256: str | None = None


@dataclass(frozen=True)
class Results:
    """One verify."""

    run: RunInfo
    environment: Environment
    target: TargetInfo
    planned: int
    cases: tuple[CaseResult, ...]
    flags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # meaning of every flag in `cases`
    notes: tuple[str, ...] = ()
    exit_code: int | None = None  # what the command exits with; None where no command decided
    exit_reason: str = ""  # one line: why, where the exit code alone does not say it
    cases_per_second: float | None = None  # from the first result to the last; None of fewer than two

    @property
    def totals(self) -> dict[str, int]:
        """Cases by outcome, every outcome named."""
        counted = Counter(case.outcome for case in self.cases)
        return {str(outcome): counted.get(outcome, 0) for outcome in Outcome}

    @property
    def left(self) -> int:
        """Cases that a budget left: they count neither for the target nor against it."""
        return self.totals[Outcome.NOT_RUN] if self.run.options.get("budget") is not None else 0

    def to_json(self) -> str:
        """The JSON text of ``results.json``, keys in a fixed order, ending with a newline."""
        body = {
            "schema": RESULTS_SCHEMA,
            "schema_version": RESULTS_VERSION,
            "run": asdict(self.run),
            "environment": dict(self.environment.facts),
            "target": asdict(self.target),
            "planned": self.planned,
            "cases_per_second": self.cases_per_second,
            "totals": self.totals,
            "exit_code": self.exit_code,
            "exit_reason": self.exit_reason,
            "notes": list(self.notes),
            "flags": {name: dict(meaning) for name, meaning in self.flags.items()},
            "cases": [asdict(case) for case in self.cases],
        }
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load_results(path: Path) -> Results:
    """Read ``results.json``. Raises UsageProblem where it is not one of a known major version, or damaged."""
    return load(path, RESULTS_SCHEMA, RESULTS_VERSION, "harness verify", "results file", _from_body)


def _from_body(body: Mapping[str, Any]) -> Results:
    derived = ("schema", "schema_version", "totals")
    fields = {name: value for name, value in body.items() if name not in derived}
    fields.setdefault("cases_per_second", None)  # files of 1.0.0 have none
    results: Results = build(Results, {**fields, "environment": {"facts": body["environment"]}})
    if body["totals"] != results.totals:
        raise ValueError("the totals are not those of the cases")
    if results.exit_code == 0 and results.exit_reason:
        raise ValueError("exit code 0 beside a reason to fail")
    return results
