"""One set of arrays of one kernel in a target's memory, filled as the fixture says and called many times.

Several copies stand side by side, so that calls can take them in turn. They share a workspace, as the
layers of an engine do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from harness.case import AnyArray
from harness.contract import KERNELS, OK, Array
from harness.memory.buffers import Arena, poison_of
from harness.observation import Round
from harness.shapes import Dims, shape_in
from harness.targets.arguments import kernel_args
from harness.targets.capability import plan_hints
from harness.targets.engine import Engine, Workspace

Scalars = Mapping[str, int | float]


class Copy(Protocol):
    """A set of arrays with the calls that use them."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    def stage(self, poison: int) -> None:
        """Write inputs and in-out arrays anew and fill the outputs with poison number ``poison``."""

    def plan(self) -> None:
        """The planning calls: outside of capture and timing, before every replay."""

    def call(self) -> int:
        """Enqueue the kernel once; its status."""

    def part(self, kernel: str) -> int:
        """Enqueue one kernel of a composed step once; its status."""

    def round(self) -> Round:
        """Bring everything back: outputs, damaged guards, changed inputs."""


class SingleCopy:
    """The arrays of one kernel other than greedy_step. A pool has one array per layer, side by side."""

    def __init__(
        self, engine: Engine, kernel: str, inputs: Mapping[str, AnyArray], scalars: Scalars, dims: Dims,
        index: int, workspace: Workspace | None,
    ) -> None:  # fmt: skip
        self._engine, self._kernel, self._inputs, self._dims = engine, KERNELS[kernel], inputs, dims
        arrays = [a for a in self._kernel.arrays if a.name != "lse" or engine.wants_lse]
        self._in = [a for a in arrays if a.role == "in"]
        self._out = [a for a in arrays if a.role == "out"]
        self._pools = [a for a in arrays if a.role == "inout"]
        sizes = {a.name: array_bytes(a, dims) for a in (*self._in, *self._out)}
        for array in self._pools:
            sizes["layer_base"] = 8 * dims["Y"]
            sizes.update(dict.fromkeys(_layers(dims), array_bytes(array, dims) // dims["Y"]))
        self._arena = Arena(engine.space, sizes, index)
        self._fill()
        self._args = kernel_args(kernel, self._arena.address, dims, scalars)
        self.workspace = workspace or engine.workspace(kernel, self._args, 0)
        self.nbytes = sum(sizes.values())
        self._hints = plan_hints(inputs, dims)

    def stage(self, poison: int) -> None:
        """Inputs again, outputs poisoned."""
        for array in self._out:
            self._arena.fill(array.name, poison_of(poison))
        self._arena.seal()
        self.workspace.arena.seal()

    def plan(self) -> None:
        """The planning call."""
        self._engine.plan(self._kernel.name, self._args, self._hints)

    def call(self) -> int:
        """The kernel, once."""
        return self._engine.call(self._kernel.name, self._args, self.workspace)

    def part(self, kernel: str) -> int:
        """The kernel itself: it has no parts."""
        return self.call()

    def round(self) -> Round:
        """Everything back."""
        arena, dims = self._arena, self._dims
        arena.fetch()
        self.workspace.arena.fetch()
        outputs = {a.name: arena.read(a.name, a.numpy_dtype, shape_in(a, dims)).copy() for a in self._out}
        for array in self._pools:
            shape = shape_in(array, dims)[1:]
            outputs[array.name] = np.stack([arena.read(n, array.numpy_dtype, shape) for n in _layers(dims)])
        read_only = [a.name for a in self._in] + (["layer_base"] if self._pools else [])
        return Round(
            "done",
            outputs=outputs,
            guard_hits=arena.guard_hits() + self.workspace.arena.guard_hits(),
            mutated=tuple(name for name in read_only if arena.changed(name)),
        )

    def _fill(self) -> None:
        for array in self._in:
            view = self._arena.view(array.name, array.numpy_dtype, shape_in(array, self._dims))
            view[...] = self._inputs[array.name]
        for array in self._pools:
            for name, layer in zip(_layers(self._dims), self._inputs[array.name], strict=True):
                self._arena.view(name, array.numpy_dtype, layer.shape)[...] = layer
            addresses = [self._arena.address(name) for name in _layers(self._dims)]
            self._arena.view("layer_base", np.uint64)[:] = addresses


def array_bytes(array: Array, dims: Dims) -> int:
    """Bytes of one array, without a leading axis of steps."""
    shape = shape_in(array, dims)
    return math.prod(shape[1:] if array.dims[0] == "U" else shape) * array.numpy_dtype.itemsize


def _layers(dims: Dims) -> list[str]:
    return [f"kv[{y}]" for y in range(dims["Y"])]


def all_ok(copies: list[Copy], times: int = 1, part: str = "") -> int:
    """Enqueue every copy in turn, ``times`` rounds, up to the first that fails; a status."""
    for _ in range(times):
        for copy in copies:
            status = copy.part(part) if part else copy.call()
            if status != OK:
                return status
    return OK
