"""The buffers of one kernel call: an arena for its arrays, and pools whose pages may lie far apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.case import AnyArray
from harness.contract import KERNELS, Array, Kernel
from harness.memory import hostile
from harness.memory.buffers import Arena, Delays
from harness.memory.spread import SpreadPages
from harness.shapes import Dims, shape_in
from harness.targets.engine import Engine

Arrays = Mapping[str, AnyArray]


def nbytes_of(array: Array, shape: tuple[int, ...]) -> int:
    """Bytes of an array of the contract."""
    return math.prod(shape) * array.numpy_dtype.itemsize


def layer_names(layers: int) -> list[str]:
    """Each layer of a pool is an array of its own, with guards of its own."""
    return [f"kv[{y}]" for y in range(layers)]


@dataclass(frozen=True)
class _Plan:
    """What is placed for each array of a kernel: a pool of several layers is as many pieces."""

    shapes: Mapping[str, tuple[int, ...]]
    pieces: Mapping[str, Mapping[str, int]]  # names and bytes
    sizes: Mapping[str, int]  # of the arena, by piece
    written: tuple[Array, ...]  # outputs that stand in the arena
    read: tuple[Array, ...]  # inputs, in-out ones among them
    kept: tuple[str, ...]  # pieces that must not change


@lru_cache(maxsize=256)
def _plan(kernel: str, dims: tuple[tuple[str, int], ...], spread: bool, wants_lse: bool) -> _Plan:
    """The runs of a case, and cases of equal shapes, share it. ``spread``: ``kv`` is outside the arena."""
    arrays, sizes_of = KERNELS[kernel].arrays, dict(dims)
    shapes = {a.name: shape_in(a, sizes_of) for a in arrays}
    pieces: dict[str, dict[str, int]] = {}
    sizes: dict[str, int] = {}
    for array in arrays:
        nbytes, names = nbytes_of(array, shapes[array.name]), [array.name]
        if array.role == "inout":
            names = layer_names(sizes_of["Y"])
            sizes["layer_base"] = 8 * sizes_of["Y"]
        pieces[array.name] = dict.fromkeys(names, nbytes // len(names))
        if not (spread and array.name == "kv") and (array.name != "lse" or wants_lse):
            sizes |= pieces[array.name]
    return _Plan(
        shapes,
        pieces,
        sizes,
        written=tuple(a for a in arrays if a.role == "out" and a.name in sizes),
        read=tuple(a for a in arrays if a.role != "out"),
        kept=(*(a.name for a in arrays if a.role == "in"), *(n for n in sizes if n == "layer_base")),
    )


class Staging:
    """Guarded, poisoned buffers for one kernel. Stage and seal, call, fetch, look.

    ``page_stride``, where it is not 0, is the distance of a pool's pages in elements.
    """

    def __init__(
        self, engine: Engine, kernel: Kernel, dims: Dims, page_stride: int, round_index: int
    ) -> None:
        self._kernel, self._dims, self._round = kernel, dims, round_index
        self._plan = plan = _plan(kernel.name, tuple(dims.items()), page_stride > 0, engine.wants_lse)
        self._pools: dict[str, SpreadPages] = {}
        if page_stride:
            pages, step = dims["G"], page_stride * kernel.array("kv").numpy_dtype.itemsize
            for name, nbytes in plan.pieces["kv"].items():
                self._pools[name] = SpreadPages(engine.space, name, pages, nbytes // pages, step)
        poisoned = tuple([array.name for array in plan.written])
        self.arena = Arena(engine.space, plan.sizes, round_index, poisoned)
        self._all: list[Arena | SpreadPages] = [self.arena, *self._pools.values()]

    def address(self, name: str) -> int:
        """Where an array stands; 0 where it is empty or there is none."""
        return self._pools[name].address if name in self._pools else self.arena.address(name)

    def stage(self, inputs: Arrays, hidden: Arrays) -> None:
        """Put ``inputs`` in place; poison stands in every output.

        What no live node of ``hidden`` sees, rows and queries of verify_attn, becomes hostile.
        """
        for array in self._plan.read:
            self._put(array, inputs[array.name], hidden)
        if self._kernel.name == "verify_attn":
            queries = self.arena.view("q", np.uint16, inputs["q"].shape)
            dead = hostile.dead_queries(inputs["node_count"], self._dims["N"])
            queries[dead] = hostile.pattern(self._round, self._dims["Dk"])

    def seal(self) -> None:
        """Copy everything staged into the target's memory."""
        for pool in self._pools.values():
            pool.seal()
        self.arena.seal()

    def seal_behind(self, stream: Delays) -> None:
        """As `seal`, but the arrays of the arena arrive late, on the stream of the calls."""
        for pool in self._pools.values():
            pool.seal()
        self.arena.seal_behind(stream)

    def forbid(self, forbidden: bool) -> None:
        """While the target runs: an address sanitizer, where one is loaded, traps on the guards."""
        for part in self._all:
            part.forbid(forbidden)

    def fetch(self) -> None:
        """Bring everything back."""
        for part in self._all:
            part.fetch()

    def outputs(self) -> dict[str, AnyArray]:
        """What the target left in the outputs."""
        found: dict[str, AnyArray] = {}
        shapes = self._plan.shapes
        for array in self._kernel.arrays:
            if array.role == "inout":
                layers = self._plan.pieces[array.name]
                shape = shapes[array.name][1:]
                found[array.name] = np.stack([self._read(n, array.numpy_dtype, shape) for n in layers])
        for array in self._plan.written:
            found[array.name] = self.arena.read(array.name, array.numpy_dtype, shapes[array.name])
        return found

    def guard_hits(self) -> tuple[str, ...]:
        """One line per damaged guard."""
        return tuple(line for part in self._all for line in part.guard_hits())

    def mutated(self) -> tuple[str, ...]:
        """Names of inputs whose bytes are not those staged."""
        return tuple(
            name
            for name in self._plan.kept
            if (self._pools[name].changed() if name in self._pools else self.arena.changed(name))
        )

    def _put(self, array: Array, value: AnyArray, hidden: Arrays) -> None:
        names = self._plan.pieces[array.name]
        unseen = array.name == "kv" and self._kernel.name == "verify_attn"
        if unseen and "kv" in self._pools:
            value = value.copy()
            self._spoil(value, hidden)
        for name, part in zip(names, value if array.role == "inout" else [value], strict=True):
            if name in self._pools:
                self._pools[name].stage(part)
            else:
                self.arena.view(name, array.numpy_dtype, part.shape)[...] = part
        if unseen and "kv" not in self._pools:  # in place: a large pool is not copied twice
            self._spoil(self.arena.view("kv", array.numpy_dtype, value.shape), hidden)
        if array.role == "inout":
            self.arena.view("layer_base", np.uint64)[:] = [self.address(name) for name in names]

    def _spoil(self, pool: AnyArray, hidden: Arrays) -> None:
        """Make the rows of an attention pool hostile that no live node of ``hidden`` sees."""
        dead = hostile.dead_attention_rows(hidden)
        pool.reshape(-1, self._dims["R"])[dead] = hostile.pattern(self._round, self._dims["R"])

    def _read(self, name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> AnyArray:
        pool = self._pools.get(name)
        return pool.read(dtype, shape) if pool is not None else self.arena.read(name, dtype, shape)
