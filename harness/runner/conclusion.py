"""What a run comes to. Nothing is skipped silently: every reason why a run is no success, in words."""

from __future__ import annotations

from collections.abc import Iterable

from harness.observation import DECLARED
from harness.results import Outcome, Results

_FINE = (Outcome.PASS, Outcome.UNSUPPORTED, Outcome.WAIVED)


def failures(results: Results, required: Iterable[str] = ()) -> tuple[str, ...]:
    """Empty where every planned case is accounted for and every selected kernel has a PASS and no failure.

    ``required`` names kernels that must have a PASS besides those selected; a shard may lack them, its merger
    may not. UNSUPPORTED is a failure where the target declares what the case needs, NOT_RUN where no budget
    was given.
    """
    lines = []
    if len(results.cases) != results.planned:
        lines.append(f"{results.planned} cases planned, {len(results.cases)} accounted for")
    for outcome, count in results.totals.items():
        if count and outcome not in _FINE and not (outcome == Outcome.NOT_RUN and results.left):
            lines.append(f"{count} {outcome}")
    refused = sum(1 for c in results.cases if is_refused(c.outcome, c.message))
    if refused:
        lines.append(f"{refused} UNSUPPORTED although the target declares what they need")
    if suspects := {c.suspect for c in results.cases if c.suspect}:
        lines.append(f"workers died after {', '.join(sorted(suspects))}, in cases that do not die alone")
    selected = dict.fromkeys([*(c.kernel for c in results.cases), *required])
    passed = {c.kernel for c in results.cases if c.outcome is Outcome.PASS}
    without = [kernel for kernel in selected if kernel not in passed]
    if without and shard_of(results) is None:
        lines.append(f"no case of {', '.join(without)} passed (select kernels with -k)")
    return tuple(lines)


def is_refused(outcome: Outcome, message: str) -> bool:
    """True for a case that the target refused although it declares what the case needs."""
    return outcome is Outcome.UNSUPPORTED and message.startswith(DECLARED)


def shard_of(results: Results) -> str | None:
    """``i/n`` where these are the results of a shard."""
    shard = results.run.options.get("shard")
    return None if shard is None else str(shard)
