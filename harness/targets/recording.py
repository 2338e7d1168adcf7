"""Captured mode: a step is recorded once in a graph and replayed with the inputs of each step."""

from __future__ import annotations

from collections.abc import Callable

from harness.memory.space import Graph, Records, Space


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
