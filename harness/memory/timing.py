"""One number per call: the wall clock on the host, event times on a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

Clock = Literal["event", "emulated", "host clock"]
T = TypeVar("T")


def host_seconds(call: Callable[[], T]) -> tuple[T, float]:
    """The call's result and its wall time."""
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def fastest(seconds: Iterable[float | None]) -> float | None:
    """The smallest time of several runs; None where none was taken."""
    return min((s for s in seconds if s is not None), default=None)


def clock_of(memory: str, emulated: bool) -> Clock:
    """How a target is timed. Emulated times say nothing about a GPU and are labelled so."""
    return "event" if memory == "device" else "emulated" if emulated else "host clock"
