"""Device spans of timed cases: a pass of its own in a fresh worker, after all timing is over.

The profiler must not meet a timed series. Nothing that happens here fails a bench: a case without spans says
less, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.bench.child import BenchChild, Ended
from harness.bench.measure import require_right
from harness.bench.profiler import unavailable
from harness.bench.work import work_of
from harness.bench_results import BenchCase, DeviceSpan, Series
from harness.case import Case
from harness.errors import HarnessError

CALLS = 100  # of each series, so as many spans of a kernel
NOT_MEASURED = "Device span per kernel: not measured ({})."
MEASURED = (
    "Device span per kernel: by torch's profiler, {} calls of each series, one at a time, in a process of "
    "its own after all timing. Spans overlap where the kernels of a call do."
)


def with_spans(
    cases: Sequence[BenchCase], start: Callable[[], BenchChild], load: Callable[[str], Case]
) -> tuple[tuple[BenchCase, ...], str]:
    """``cases`` with the spans of those that have series, and a line on how they came, or why some did not.

    ``start`` gives a fresh worker of the target, ``load`` a case by its id. The pass ends with the first case
    that goes wrong in it.
    """
    timed = [case for case in cases if case.series]
    reason = unavailable() if timed else "no case was timed"
    if reason:
        return tuple(cases), NOT_MEASURED.format(reason)
    found: dict[str, tuple[DeviceSpan, ...]] = {}
    try:
        child = start()
    except HarnessError as error:
        return tuple(cases), NOT_MEASURED.format(f"no worker: {error}")
    try:
        for case in timed:
            found[case.case_id] = _spans(child, load(case.case_id), case.series)
    except Ended as ended:
        if ended.replace:
            child.kill()
        reason = f"{timed[len(found)].case_id}: {' '.join(ended.message.split())}"
    finally:
        child.close()
    if not found:
        return tuple(cases), NOT_MEASURED.format(reason)
    line = MEASURED.format(CALLS)
    if reason:
        line += f" {len(timed) - len(found)} of {len(timed)} cases have none ({reason})."
    return tuple(replace(case, device_span=found.get(case.case_id)) for case in cases), line


def _spans(child: BenchChild, case: Case, series: Sequence[Series]) -> tuple[DeviceSpan, ...]:
    """Each series arranged as it was when it was timed; Ended where an output is wrong or nothing is seen."""
    child.load(case)
    found: list[DeviceSpan] = []
    for one in series:
        cache = one.arrangement.cache
        child.arrange(cache, work_of(case).touched, one.arrangement.calls)
        require_right(case, child.check(), "before its spans were recorded")
        found += child.spans(cache, CALLS)
        require_right(case, child.left(), "after its spans were recorded")
    return tuple(found)
