"""Checks on a whole fixture set. Damage is a FixtureError; what is whole but wrong is a finding.

1. Reading: manifest, hashes, schema and contract versions, counts, offsets, shapes (`harness.store`).
2. Hashes: payload and integrity hash of every case are those of its values; no two cases share a payload.
3. Names: a case id starts with its kernel and family; flags are defined, and in a full set every defined
   flag is used.
4. Arrays: names, dtypes, shapes, scalars and limits of the contract (`harness.lint.arrays`).
5. Preconditions of the contract for each kernel (`harness.lint.preconditions`).
6. Expected trees: parents before children; links, depths, positions, masks follow (`harness.lint.trees`).
7. Discrimination: the comparison refuses broken outputs and wrong masks (`harness.lint.discrimination`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.case import Case, known, materialize
from harness.contract import KERNELS
from harness.flags import FLAGS
from harness.generate.processes import map_in_processes
from harness.lint.arrays import array_findings
from harness.lint.discrimination import discrimination_findings
from harness.lint.preconditions import precondition_findings
from harness.lint.trees import tree_findings
from harness.store import FixtureSet, open_set
from harness.store.encode import case_hashes, encode_values
from harness.store.index import CaseSummary

_CHUNK = 16


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: with a case, or (``case_id`` empty) with the set."""

    case_id: str
    message: str

    def __str__(self) -> str:
        return f"{self.case_id}: {self.message}" if self.case_id else self.message


def lint(
    fixtures: FixtureSet, jobs: int | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Finding]:
    """Every finding on the set, in the order of its cases. FixtureError where it is damaged."""
    summaries = fixtures.summaries()
    findings = list(_set_findings(fixtures, summaries))
    chunks = [summaries[i : i + _CHUNK] for i in range(0, len(summaries), _CHUNK)]
    found = map_in_processes(_chunk_findings, chunks, jobs, _start_worker, (fixtures.folder,))
    for done, lines in enumerate(found, 1):
        findings += lines
        if progress is not None:
            progress(min(done * _CHUNK, len(summaries)), len(summaries))
    return findings


def case_findings(case: Case) -> list[str]:
    """What is wrong with one case, apart from its stored hashes; one line each.

    A case that is wrong in its form is not asked whether it can fail: that needs to replay it.
    """
    names, arrays = list(_name_findings(case)), list(array_findings(case))
    if arrays:
        return names + arrays
    inputs = {name: materialize(value) for name, value in case.inputs.items()}
    expected = {name: known(value) for name, value in case.expected.items()}
    form = list(precondition_findings(case, inputs, expected))
    if case.kernel == "tree_build":
        form += tree_findings(expected, inputs["prefix_len"])
    if case.kernel == "greedy_step":
        for u, prefix_len in enumerate(inputs["prefix_len"]):
            step = {name: array[u] for name, array in expected.items() if name != "kv"}
            form += [f"step {u}: {line}" for line in tree_findings(step, prefix_len)]
    return names + (form or list(discrimination_findings(case, inputs, expected)))


def _set_findings(fixtures: FixtureSet, summaries: Sequence[CaseSummary]) -> Iterator[Finding]:
    payloads: dict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        payloads[summary.payload_sha256].append(summary.case_id)
    for twins in payloads.values():
        if len(twins) > 1:
            yield Finding(twins[1], f"has the payload of {twins[0]}")
    used = {flag for summary in summaries for flag in summary.flags}
    if fixtures.suite == "full" and fixtures.kernels == tuple(KERNELS):
        for flag in sorted(FLAGS.keys() - used):
            yield Finding("", f"flag {flag} is defined and carried by no case")


def _name_findings(case: Case) -> Iterator[str]:
    if not case.case_id.startswith(f"{case.kernel}/{case.family}/"):
        yield f"the id does not start with {case.kernel}/{case.family}/"
    if list(case.flags) != sorted(set(case.flags)):
        yield "flags are not sorted, or one stands twice"
    for flag in case.flags:
        if flag not in FLAGS:
            yield f"flag {flag} is not defined"
    if not case.flags:
        yield "carries no flag, so nobody knows what it probes"


def _hash_findings(case: Case, summary: CaseSummary) -> Iterator[str]:
    payload, integrity = case_hashes(case, list(encode_values(case)))
    if payload != summary.payload_sha256:
        yield "payload_sha256 is not that of its values"
    if integrity != summary.integrity_sha256:
        yield "integrity_sha256 is not that of its values"


_fixtures: FixtureSet


def _start_worker(folder: Path) -> None:
    global _fixtures
    _fixtures = open_set(folder)


def _chunk_findings(chunk: Sequence[CaseSummary]) -> list[Finding]:
    findings = []
    for summary in chunk:
        case = _fixtures.case(summary.case_id)
        lines = [*_hash_findings(case, summary), *case_findings(case)]
        findings += [Finding(case.case_id, line) for line in lines]
    return findings
