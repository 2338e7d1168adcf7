"""One case on a target in this process: several runs on fresh buffers, and what was seen of them."""

from __future__ import annotations

from collections.abc import Iterable

from harness.case import AnyArray
from harness.memory.timing import fastest
from harness.observation import Job, Observation, Round
from harness.targets.base import Target

MIN_REPEAT = 2  # two poisons need two runs


def replay(target: Target, job: Job, repeat: int = MIN_REPEAT) -> Observation:
    """Run ``job`` ``repeat`` times, or until a run does not end well."""
    refusal = target.refusal(job)
    if refusal is not None:
        return Observation("refused", refusal.message)
    ready = job.materialized()
    rounds: list[Round] = []
    for index in range(max(repeat, MIN_REPEAT)):
        rounds.append(target.run_round(ready, index))
        if rounds[-1].status != "done":
            break
    return _observation(target, rounds)


def _observation(target: Target, rounds: list[Round]) -> Observation:
    first, last = rounds[0], rounds[-1]
    rounds = [*rounds, *(earlier for r in rounds for earlier in r.before)]
    return Observation(
        status=last.status,
        message=last.message,
        rounds=(dict(first.outputs), *(_changed(first, later) for later in rounds[1:])),
        malformed=_distinct(line for r in rounds for line in r.malformed),
        guard_hits=_distinct(line for r in rounds for line in r.guard_hits),
        mutated=_distinct(name for r in rounds for name in r.mutated),
        seconds=fastest(r.seconds for r in rounds),
        absent=target.identity.absent,
        lse_base2=target.identity.lse_base2,
        poisoned=target.poisons,
        notes=_distinct(note for r in rounds for note in r.notes),
    )


def _changed(first: Round, later: Round) -> dict[str, AnyArray]:
    if later.status != "done":
        return {}
    return {
        name: value
        for name, value in later.outputs.items()
        if name not in first.outputs or _differ(first.outputs[name], value)
    }


def _differ(one: AnyArray, other: AnyArray) -> bool:
    return one.dtype != other.dtype or one.shape != other.shape or one.tobytes() != other.tobytes()


def _distinct(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))
