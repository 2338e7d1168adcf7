"""Several buffers of one case as one observation, so that the judge of a verify can look at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.case import AnyArray
from harness.observation import Observation, Round
from harness.targets.base import Target


def observed(target: Target, rounds: Iterable[Round]) -> Observation:
    """The first buffer in full, of every other what differs from it in a byte.

    Neighbours were filled with different poisons, so an element that nobody wrote differs too.
    """
    first: Mapping[str, AnyArray] | None = None
    changed: list[Mapping[str, AnyArray]] = []
    hits: dict[str, None] = {}
    mutated: dict[str, None] = {}
    for one in rounds:
        hits |= dict.fromkeys(one.guard_hits)
        mutated |= dict.fromkeys(one.mutated)
        if first is None:
            first = one.outputs
            continue
        changed.append({n: v for n, v in one.outputs.items() if v.tobytes() != first[n].tobytes()})
    return Observation(
        "done",
        rounds=(first or {}, *changed),
        guard_hits=tuple(hits),
        mutated=tuple(mutated),
        absent=target.identity.absent,
        lse_base2=target.identity.lse_base2,
        poisoned=target.poisons,
    )
