"""The verdict on one case: what was observed of a target, against what the case expects.

Precedence, most serious first: UNSUPPORTED, GUARD_HIT, INPUT_MUTATED, UNWRITTEN, WRONG_SHAPE, WRONG_VALUES,
NONDETERMINISTIC, PASS. (CRASH, TIMEOUT and HARNESS_ERROR leave no observation.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.case import AnyArray, Case
from harness.judge.compare import Comparison, compare_case
from harness.memory.buffers import POISONS
from harness.observation import Observation
from harness.results import Mismatch, Outcome


@dataclass(frozen=True)
class Verdict:
    """An outcome with its reasons."""

    outcome: Outcome
    message: str = ""
    share: float | None = None
    mismatch: Mismatch | None = None
    outputs: Mapping[str, AnyArray] | None = None  # of the run that decided


def judge(case: Case, seen: Observation) -> Verdict:
    """The verdict. FixtureError where the case itself is unfit."""
    if seen.status == "refused":
        return Verdict(Outcome.UNSUPPORTED, seen.message)
    if seen.guard_hits:
        return Verdict(Outcome.GUARD_HIT, _all(seen.guard_hits))
    if seen.mutated:
        return Verdict(Outcome.INPUT_MUTATED, f"changed its input {', '.join(seen.mutated)}")
    if seen.status == "failed":
        return Verdict(Outcome.WRONG_VALUES, seen.message)
    unwritten = _unwritten(seen)
    if unwritten:
        return Verdict(Outcome.UNWRITTEN, _all(unwritten))
    if seen.malformed:
        return Verdict(Outcome.WRONG_SHAPE, _all(seen.malformed))
    return _compared(case, seen)


def _compared(case: Case, seen: Observation) -> Verdict:
    if not seen.rounds:
        return Verdict(Outcome.HARNESS_ERROR, "the target was not run")
    share: float | None = None
    sampled = ""
    for number, changed in enumerate(seen.rounds):
        if number and not changed:
            continue
        outputs = {**seen.rounds[0], **changed}
        found = compare_case(case, outputs, absent=seen.absent, lse_base2=seen.lse_base2)
        sampled = found.sampled
        share = max((s for s in (share, found.share) if s is not None), default=None)
        if found.misshapen:
            return Verdict(Outcome.WRONG_SHAPE, _all(found.misshapen))
        if found.mismatch is not None:
            run = f" in run {number + 1} only" if number else ""
            return Verdict(Outcome.WRONG_VALUES, _describe(found) + run, share, found.mismatch, outputs)
        if not found.right:
            return Verdict(Outcome.HARNESS_ERROR, "nothing to compare: the case expects no element")
    differing = sorted({name for changed in seen.rounds[1:] for name in changed})
    if differing:
        message = f"right, but {', '.join(differing)} differ in a bit between {len(seen.rounds)} runs"
        return Verdict(Outcome.NONDETERMINISTIC, message, share)
    return Verdict(Outcome.PASS, sampled, share)


def _describe(found: Comparison) -> str:
    wrong = found.mismatch
    assert wrong is not None
    place = "".join(f"[{i}]" for i in wrong.index)
    text = f"{wrong.array}{place} is {wrong.got}, expected {wrong.expected}"
    text += f"; {wrong.wrong} of {wrong.total} wrong"
    if found.others:
        text += f", {', '.join(found.others)} too"
    return f"{text} ({found.sampled})" if found.sampled else text


def _unwritten(seen: Observation) -> list[str]:
    """Elements that hold the first poison after the first run and the second after the second."""
    if not seen.poisoned or len(seen.rounds) < 2:
        return []
    lines = []
    for name, second in seen.rounds[1].items():
        first = seen.rounds[0][name]
        left = _holds(first, POISONS[0]) & _holds(second, POISONS[1])
        if left.any():
            index = np.unravel_index(int(left.argmax()), left.shape)
            place = "".join(f"[{i}]" for i in index)
            lines.append(f"{name}: {np.count_nonzero(left)} of {left.size} never written, first {place}")
    return lines


def _holds(values: AnyArray, byte: int) -> AnyArray:
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    equal: AnyArray = (raw.reshape(values.size, -1) == byte).all(axis=1).reshape(values.shape)
    return equal


def _all(lines: tuple[str, ...] | list[str]) -> str:
    shown = "; ".join(lines[:4])
    return shown if len(lines) <= 4 else f"{shown}; {len(lines) - 4} more"
