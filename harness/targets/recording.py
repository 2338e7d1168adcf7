"""Captured mode: a step is recorded once in a graph and replayed with the inputs of each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from harness.targets.engine import Graph, Space


class CaptureUnavailable(Exception):
    """This memory space or driver records no graphs."""


class CaptureFailed(Exception):
    """The calls do something that cannot be captured."""


@runtime_checkable
class Records(Protocol):
    """A space that can record graphs."""

    def record(self, call: Callable[[], int]) -> Graph:
        """The graph of what ``call`` enqueues. CaptureUnavailable, CaptureFailed."""


class Recorder:
    """Records at the first use, replays ever after. On host memory there are no graphs: calls stay eager."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._graph: Graph | None = None

    def replayed(self, call: Callable[[], int]) -> Callable[[], int]:
        """A function that launches the recorded ``call`` once."""
        if not isinstance(self._space, Records):
            return call
        if self._graph is None:
            self._graph = self._space.record(call)
        return self._graph.launch
