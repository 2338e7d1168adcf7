"""One case on two workers: both right, then samples in turn, A B A B, so that both meet the same machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from harness.bench.child import BenchChild, Ended
from harness.bench.measure import require_right
from harness.bench.verdict import Decision, decide, differences
from harness.bench.work import work_of
from harness.bench_results import Arrangement, Series
from harness.case import Case
from harness.compare_results import ComparedCase, Standing
from harness.observation import Observation
from harness.results import Outcome

PER_TURN = 2  # samples of one target before it is the other's turn; one before them is not kept


class SideEnded(Exception):
    """One of the two could not be timed."""

    def __init__(self, side: str, ended: Ended) -> None:
        super().__init__(str(ended))
        self.side, self.ended = side, ended


@contextmanager
def _blamed(side: str) -> Iterator[None]:
    try:
        yield
    except Ended as ended:
        raise SideEnded(side, ended) from ended


@dataclass(frozen=True)
class Sides:
    """The two workers by the name of their side. A stored baseline has a second one only."""

    children: Mapping[str, BenchChild]

    def load(self, case: Case) -> None:
        """Hand the case to both."""
        for side, child in self.children.items():
            with _blamed(side):
                child.load(case)


def duel(case: Case, cache: str, sides: Sides, samples: int, min_effect: float) -> ComparedCase:
    """Two live targets. SLOWER is confirmed by a second set of samples, or it is UNDECIDED."""
    found = _samples(case, cache, sides, samples)
    decision = decide(found.first, found.second, min_effect)
    decision = _alike(decision, found.arranged["A"], found.arranged["B"])
    confirmed = False
    if decision.standing is Standing.SLOWER:
        again = _samples(case, cache, sides, samples)
        second = decide(again.first, again.second, min_effect)
        confirmed = second.standing is Standing.SLOWER
        if not confirmed:
            reason = f"{decision.reason}; a second run said {second.reason}"
            decision = replace(decision, standing=Standing.UNDECIDED, reason=reason)
    different = differences(case.kernel, found.seen["A"], found.seen["B"])
    made = _compared(case, cache, decision, found.first, found.second, found.arranged["B"])
    return replace(made, confirmed=confirmed, differences=different)


def against(case: Case, stored: Series, sides: Sides, samples: int, min_effect: float) -> ComparedCase:
    """A live target against stored samples, taken at another time."""
    cache = stored.arrangement.cache
    found = _samples(case, cache, sides, samples)
    decision = decide(stored.seconds, found.second, min_effect)
    decision = replace(decision, reason=f"indicative: {decision.reason}")
    decision = _alike(decision, stored.arrangement, found.arranged["B"])
    return _compared(case, cache, decision, stored.seconds, found.second, found.arranged["B"])


def _alike(decision: Decision, first: Arrangement, second: Arrangement) -> Decision:
    """UNDECIDED unless both were measured in the same way."""
    ways = [" ".join(filter(None, (a.quantity, a.cold_by))) for a in (first, second)]
    if ways[0] == ways[1]:
        return decision
    reason = f"{decision.reason}; not measured alike ({ways[0]}, then {ways[1]})"
    return replace(decision, standing=Standing.UNDECIDED, reason=reason)


def no_times(
    case_id: str, kernel: str, cache: str, reason: str, outcome: Outcome, culprit: str
) -> ComparedCase:
    """A comparison that did not come about."""
    return ComparedCase(
        case_id, kernel, cache, Standing.NO_TIMES, reason, None, None, None, None, (), (), False, None, (),
        outcome, culprit,
    )  # fmt: skip


@dataclass(frozen=True)
class _Samples:
    first: tuple[float, ...]
    second: tuple[float, ...]
    seen: Mapping[str, Observation]
    arranged: Mapping[str, Arrangement]


def _samples(case: Case, cache: str, sides: Sides, samples: int) -> _Samples:
    """``samples`` or a few more of each side, in turn. Both use the same number of calls."""
    touched, calls = work_of(case).touched, 0
    seen: dict[str, Observation] = {}
    taken: dict[str, list[float]] = {side: [] for side in sides.children}
    arranged: dict[str, Arrangement] = {}
    for side, child in sides.children.items():
        with _blamed(side):
            arranged[side] = child.arrange(cache, touched, calls)
            calls = arranged[side].calls
            seen[side] = child.check()
            require_right(case, seen[side], "before timing")
    while any(len(values) < samples for values in taken.values()):
        for side, child in sides.children.items():
            with _blamed(side):
                taken[side] += child.sample(PER_TURN, discard=1, fresh=not taken[side])
    for side, child in sides.children.items():
        with _blamed(side):
            require_right(case, child.left(), "after timing")
    return _Samples(tuple(taken.get("A", ())), tuple(taken["B"]), seen, arranged)


def _compared(
    case: Case, cache: str, decision: Decision, first: tuple[float, ...], second: tuple[float, ...],
    arrangement: Arrangement,
) -> ComparedCase:  # fmt: skip
    ratio = decision.ratio
    return ComparedCase(
        case.case_id, case.kernel, cache, decision.standing, decision.reason,
        ratio.estimate, ratio.low, ratio.high, decision.p, first, second, False, arrangement, (),
    )  # fmt: skip
