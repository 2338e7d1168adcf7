"""Series of measurements: each input set is checked before and after it is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graph_timing import Enqueue, Stopwatch, Times
from tree_calls import Checked
from tree_inputs import KINDS
from tree_results import Measurement, measured

from harness.case import AnyArray
from harness.targets.base import Target

Arrays = Mapping[str, AnyArray]


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    sets: int = 40  # input sets, and calls in one sample
    far_sets: int = 160  # of kv_commit from device memory: five times the L2
    replays: int = 60
    host_replays: int = 21
    widths: tuple[int, ...] = (64, 256, 1024)
    kinds: tuple[str, ...] = KINDS
    nodes: tuple[int, ...] = (65, 1025)
    batches: tuple[int, ...] = (1, 32)
    layers: int = 61
    prefix: int = 2048
    heads: int = 16


class WrongResult(Exception):
    """A buffer does not hold what the references say: there is no time."""


class Series:
    """Measurements of one library, as they come; ``only`` leaves out names that do not contain it."""

    def __init__(self, target: Target, plan: Plan, only: str, show: Callable[[Measurement], None]) -> None:
        self.target, self.plan, self._only, self._show = target, plan, only, show
        self.watch = Stopwatch(target)
        self.engine, self.space = self.watch.engine, self.watch.space
        self.measurements: list[Measurement] = []

    def wants(self, *names: str) -> bool:
        """True where one of ``names`` is asked for."""
        return any(self._only in name for name in names)

    def graph(self, name: str, section: str, inputs: str, sets: Sequence[Checked], repeat: int = 1) -> None:
        """All ``sets`` in one graph, ``repeat`` times over."""
        self._stage(sets, 0)
        once = self.watch.capture([one.call for one in sets])
        graph = once if repeat == 1 else self.watch.capture([one.call for one in sets] * repeat)
        self._timed(name, section, inputs, sets, [graph], repeat * len(sets), [once])

    def replay(
        self, name: str, section: str, inputs: str, sets: Sequence[Checked], held: bool = True, calls: int = 1
    ) -> None:
        """One graph for each of ``sets``; a sample is the replay of one of them."""
        self._stage(sets, 0)
        graphs = [self.watch.capture([one.call] * calls) for one in sets]
        self._timed(name, section, inputs, sets, graphs, 1, graphs, held)

    def _timed(
        self, name: str, section: str, inputs: str, sets: Sequence[Checked], graphs: Sequence[Enqueue],
        calls: int, once: Sequence[Enqueue], held: bool = True,
    ) -> None:  # fmt: skip
        self._stage(sets, 0)
        self._check(name, "before timing", sets, once)
        self._stage(sets, 1)
        times = self.watch.samples(graphs, calls, self.plan.replays, held)
        if any(one.in_place for one in sets):
            self._stage(sets, 1)
        else:
            once = ()
        self._check(name, "after timing", sets, once)
        method = self.watch.quantity + ("" if held else ", not held")
        self.keep(name, section, inputs, times, calls, len(sets), method)

    def keep(
        self, name: str, section: str, inputs: str, times: Times, calls: int, sets: int, method: str
    ) -> None:
        """Add one measurement."""
        made_of = measured(name, section, inputs, times, method=method, calls=calls, sets=sets)
        self.measurements.append(made_of)
        self._show(made_of)

    def _stage(self, sets: Sequence[Checked], poison: int) -> None:
        for number, one in enumerate(sets):
            one.stage(poison + number)

    def _check(self, name: str, when: str, sets: Sequence[Checked], once: Sequence[Enqueue]) -> None:
        for graph in once:
            self.watch.once(graph)
        for number, one in enumerate(sets):
            if wrong := one.wrong():
                raise WrongResult(f"{name}, input set {number}, {when}: {wrong}")
