"""One set of arrays of a greedy step: its intermediates, its pool, and the calls that make it up.

Only the first step of a case is timed (`harness.bench.first_step`), so every array lacks the axis of steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.bench.copies import Scalars, array_bytes
from harness.case import AnyArray
from harness.contract import KERNELS, Array
from harness.memory.buffers import Arena, poison_of
from harness.observation import Round
from harness.shapes import Dims, inputs_of, is_planted, outputs_of, shape_in
from harness.targets.arguments import kernel_args
from harness.targets.capability import plan_hints
from harness.targets.engine import Engine, Workspace
from harness.targets.sequence import Sequence

PARTS = ("tree_build", "verify_attn", "tree_accept", "kv_commit")
_KERNEL = KERNELS["greedy_step"]
_POOL_BYTES = 2  # an element of a pool is a bf16


class StepCopy:
    """The arrays of one composed step."""

    def __init__(
        self, engine: Engine, inputs: Mapping[str, AnyArray], scalars: Scalars, dims: Dims, index: int,
        shared: StepCopy | None,
    ) -> None:  # fmt: skip
        self._engine, self._inputs, self._dims, self._index = engine, inputs, dims, index
        given = [a for a in inputs_of(_KERNEL, inputs) if a.role == "in"]
        self._read = [a for a in given if a.name != "tail"]
        self._written = [a for a in outputs_of(_KERNEL, inputs) if a.role != "inout"]
        self._hidden = [_KERNEL.array("q")] if is_planted(inputs) else []  # made on the device, not compared
        if not engine.wants_lse:
            self._written = [a for a in self._written if a.name != "lse"]
        self._layers = [f"kv[{y}]" for y in range(dims["Y"])]
        each = array_bytes(_KERNEL.array("kv"), dims) // dims["Y"]
        arrays = (*self._read, *self._written, *self._hidden)
        sizes = {a.name: array_bytes(a, dims) for a in arrays} | {"layer_base": 8 * dims["Y"]}
        sizes |= dict.fromkeys(self._layers, each)
        self._arena = Arena(engine.space, sizes, index)
        self._layer = self._layers[int(scalars["layer"])]
        self._fill()
        self._sequence = Sequence(engine, self._address, dims, scalars, is_planted(inputs))
        parts = {name: kernel_args(name, self._address, dims, scalars, _POOL_BYTES) for name in PARTS}
        self._parts = parts
        self.workspaces: dict[str, Workspace] = shared.workspaces if shared else self._sequence.workspaces(0)
        self.part_workspaces: dict[str, Workspace] = (
            shared.part_workspaces
            if shared
            else {name: engine.workspace(name, args, 0) for name, args in parts.items()}
        )
        self._enqueue = self._sequence.caller(self.workspaces)
        self._first = {a.name: self._value(a) for a in self._read}
        self.nbytes = sum(sizes.values())

    def stage(self, poison: int) -> None:
        """Inputs, pool and tail again, everything that is written poisoned."""
        for array in (*self._written, *self._hidden):
            self._arena.fill(array.name, poison_of(poison))
        self._arena.seal()
        for workspace in (*self.workspaces.values(), *self.part_workspaces.values()):
            workspace.arena.seal()

    def plan(self) -> None:
        """The planning calls."""
        self._sequence.plan(self._first)

    def call(self) -> int:
        """The whole step, once."""
        return self._enqueue()

    def part(self, kernel: str) -> int:
        """One kernel of the step, on what the step before left."""
        return self._engine.call(kernel, self._parts[kernel], self.part_workspaces[kernel])

    def plan_part(self, kernel: str) -> None:
        """The planning call of one kernel."""
        self._engine.plan(kernel, self._parts[kernel], plan_hints(self._first, self._dims))

    def round(self) -> Round:
        """Everything back, with the axis of steps."""
        self._arena.fetch()
        outputs = {
            a.name: self._arena.read(a.name, a.numpy_dtype, (1, *shape_in(a, self._dims)[1:])).copy()
            for a in self._written
        }
        page = (self._dims["G"], self._dims["S"], self._dims["R"])
        outputs["kv"] = np.stack([self._arena.read(name, np.uint16, page) for name in self._layers])
        hits = list(self._arena.guard_hits())
        for workspace in self.workspaces.values():
            workspace.arena.fetch()
            hits += workspace.arena.guard_hits()
        names = [*(a.name for a in self._read), "layer_base"]
        changed = tuple(name for name in names if self._arena.changed(name))
        return Round("done", outputs=outputs, guard_hits=tuple(hits), mutated=changed)

    def _fill(self) -> None:
        for array in self._read:
            value = self._value(array)
            self._arena.view(array.name, array.numpy_dtype, value.shape)[...] = value
        self._arena.view("layer_base", np.uint64)[:] = [self._arena.address(name) for name in self._layers]
        for y, name in enumerate(self._layers):
            pool = self._arena.view(name, np.uint16, (-1, self._dims["R"]))
            pool[...] = self._inputs["kv"][y].reshape(pool.shape)
            if "tail" in self._inputs:
                self._write_tail(pool, self._inputs["tail"][0, y])

    def _write_tail(self, pool: AnyArray, tail: AnyArray) -> None:
        """Rows ``tail`` [B,N,R] of the active requests, where they are mapped."""
        table, prefix = self._inputs["block_table"], self._inputs["prefix_len"][0]
        size = self._dims["S"]
        for b in np.flatnonzero(self._inputs["root_token"][0] != -1).tolist():
            slots = int(prefix[b]) + np.arange(self._dims["N"])
            mapped = np.flatnonzero(slots // size < self._dims["M"])
            pages = table[b, slots[mapped] // size].astype(np.int64)
            inside = (pages >= 0) & (pages < self._dims["G"])
            rows = pages * size + slots[mapped] % size
            pool[rows[inside]] = tail[b, mapped[inside]]

    def _value(self, array: Array) -> AnyArray:
        value = self._inputs[array.name]
        return value[0] if array.dims[0] == "U" else value

    def _address(self, name: str) -> int:
        return self._arena.address(self._layer if name == "kv" else name)
