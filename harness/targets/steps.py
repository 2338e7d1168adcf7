"""greedy_step on a library: step after step on one pool, eager or replayed from one captured graph.

The library's own ``ddtree_greedy_step`` is called where it has one; otherwise the step is composed here
from the four kernels, with the planted utilities between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.case import AnyArray
from harness.contract import KERNELS, Array
from harness.memory.buffers import Arena, poison_of
from harness.memory.space import CaptureFailed, CaptureUnavailable
from harness.observation import Round
from harness.shapes import Dims, inputs_of, is_planted, outputs_of, shape_in
from harness.targets.engine import Engine, Refused, Workspace
from harness.targets.pool import Pool
from harness.targets.recording import Recorder
from harness.targets.sequence import Sequence
from harness.targets.staging import nbytes_of

_KERNEL = KERNELS["greedy_step"]


@dataclass
class _Seen:
    """What the steps so far have shown."""

    outputs: dict[str, list[AnyArray]] = field(default_factory=dict)
    guard_hits: list[str] = field(default_factory=list)
    mutated: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def run_steps(
    engine: Engine,
    inputs: Mapping[str, AnyArray],
    scalars: Mapping[str, int | float],
    dims: Dims,
    round_index: int,
) -> Round:
    """All steps of one greedy_step case. On a device every second run replays a captured graph.

    Outputs are poisoned and the planning call is made before every step. Inputs reach a
    device late, on the stream of the calls and behind a pause.
    """
    run = _Run(engine, inputs, scalars, dims, round_index)
    try:
        result = run.steps(Recorder(engine.space) if round_index % 2 else None)
    except CaptureUnavailable as reason:
        run = _Run(engine, inputs, scalars, dims, round_index)
        result = replace(run.steps(None), notes=(f"greedy_step was not captured in a graph: {reason}",))
    except CaptureFailed as reason:
        return Round("failed", f"ddtree_greedy_step cannot be captured in a graph: {reason}")
    except Refused as refused:
        return engine.refused_round(refused)
    engine.keep(run.arena, run.pool.arena)
    return result


class _Run:
    """Buffers and arguments of one run."""

    def __init__(
        self,
        engine: Engine,
        inputs: Mapping[str, AnyArray],
        scalars: Mapping[str, int | float],
        dims: Dims,
        round_index: int,
    ) -> None:
        self.engine, self.inputs, self.dims, self.round = engine, inputs, dims, round_index
        self.pool = Pool(engine.space, inputs, dims, int(scalars["layer"]), round_index)
        given = inputs_of(_KERNEL, inputs)
        self.read = [a for a in given if a.role == "in"]
        self.written = [a for a in outputs_of(_KERNEL, inputs) if a.role != "inout"]
        if is_planted(inputs):
            self.written.append(_KERNEL.array("q"))
        if not engine.wants_lse:
            self.written = [a for a in self.written if a.name != "lse"]
        sizes = {
            a.name: nbytes_of(a, self._shape(a)) for a in (*self.read, *self.written) if a.name != "tail"
        }
        self.arena = Arena(engine.space, {**sizes, "layer_base": 8 * dims["Y"]}, round_index)
        self.arena.view("layer_base", np.uint64)[:] = self.pool.addresses
        self.sequence = Sequence(engine, self._address, dims, scalars, is_planted(inputs))

    def steps(self, recorder: Recorder | None) -> Round:
        """Run them all, stopping at the first that fails."""
        workspaces = self.sequence.workspaces(self.round)
        seen = _Seen()
        for step in range(self.dims["U"]):
            self._stage(step, workspaces)
            arenas = [self.arena, *(w.arena for w in workspaces.values())]
            call = self.sequence.caller(workspaces)
            if recorder is not None:
                call = recorder.replayed(call)
                if step == 0:
                    self._stage(step, workspaces)  # what ran while it was recorded is no answer of the graph
            self.pool.arena.forbid(True)
            status, seconds = self.engine.timed(arenas, call)
            self.pool.arena.forbid(False)
            state, message = self.engine.verdict(status, self.sequence.failed or "ddtree_greedy_step")
            self._note(step, seen, arenas)
            seen.seconds.append(seconds)
            if state != "done":
                return self._round(seen, Round(state, f"step {step}: {message}"))
        self.pool.arena.fetch()
        seen.guard_hits += self.pool.arena.guard_hits()
        outputs = {name: np.stack(steps) for name, steps in seen.outputs.items()}
        return self._round(seen, Round("done", outputs={**outputs, "kv": self.pool.contents()}))

    def _stage(self, step: int, workspaces: Mapping[str, Workspace]) -> None:
        for array, value in zip(self.read, self._values(step), strict=True):
            if array.name != "tail":
                self.arena.view(array.name, array.numpy_dtype, value.shape)[...] = value
        for array in self.written:
            self.arena.fill(array.name, poison_of(self.round))
        if step == 0 or self.round % 2 == 0:  # every second run keeps the workspace from step to step
            for workspace in workspaces.values():
                workspace.arena.seal()
        if not is_planted(self.inputs):
            state = self._step_inputs(step)
            self.pool.write_tail(state["tail"], state["root_token"], state["prefix_len"])
        self.sequence.plan(self._step_inputs(step))
        stream = self.engine.delays
        if stream is None:
            self.arena.seal()
            return
        if step == 0:  # until the inputs arrive the buffers hold the step before, here other tokens
            tokens = self.arena.view("topk_token", np.int32)
            tokens ^= 1
            self.arena.seal()
            tokens ^= 1
        self.arena.seal_behind(stream)

    def _note(self, step: int, seen: _Seen, arenas: list[Arena]) -> None:
        for arena in arenas:
            seen.guard_hits += [f"step {step}: {hit}" for hit in arena.guard_hits()]
        names = [a.name for a in self.read if a.name != "tail"] + ["layer_base"]
        seen.mutated += [name for name in names if self.arena.changed(name) and name not in seen.mutated]
        for array in self.written:
            if array.role == "out" or array.name == "target_predict":
                value = self.arena.read(array.name, array.numpy_dtype, self._shape(array))
                seen.outputs.setdefault(array.name, []).append(value)

    def _round(self, seen: _Seen, round_: Round) -> Round:
        mean = sum(seen.seconds) / len(seen.seconds)
        return replace(round_, guard_hits=tuple(seen.guard_hits), mutated=tuple(seen.mutated), seconds=mean)

    def _address(self, name: str) -> int:
        return self.pool.attention_address if name == "kv" else self.arena.address(name)

    def _shape(self, array: Array) -> tuple[int, ...]:
        shape = shape_in(array, self.dims)
        return shape[1:] if array.dims[0] == "U" else shape

    def _values(self, step: int) -> list[AnyArray]:
        return [self.inputs[a.name][step] if a.dims[0] == "U" else self.inputs[a.name] for a in self.read]

    def _step_inputs(self, step: int) -> dict[str, AnyArray]:
        return dict(zip((a.name for a in self.read), self._values(step), strict=True))
