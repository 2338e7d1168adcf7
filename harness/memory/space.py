"""What a memory space offers: blocks, a stream, timed calls and, on a device, recorded graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from harness.memory.buffers import Memory


class Graph(Protocol):
    """A recorded sequence of launches."""

    def launch(self) -> int:
        """Enqueue it once; a status code."""


class Space(Memory, Protocol):
    """A memory space in which calls can be made and timed."""

    @property
    def stream(self) -> int | None:
        """The stream to hand to a kernel."""

    def timed(self, call: Callable[[], int]) -> tuple[int, float]:
        """Status and seconds of one call, after it has ended."""


class CaptureUnavailable(Exception):
    """This memory space or driver records no graphs."""


class CaptureFailed(Exception):
    """The calls do something that cannot be captured."""


@runtime_checkable
class Records(Protocol):
    """A space that can record graphs."""

    def record(self, call: Callable[[], int]) -> Graph:
        """The graph of what ``call`` enqueues. CaptureUnavailable, CaptureFailed."""
