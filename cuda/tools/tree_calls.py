"""Calls of the library on buffers of their own, checked against the references; chains of such calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from harness.bench.copies import array_bytes
from harness.bench.seen import observed
from harness.bench.step_copies import StepCopy
from harness.case import AnyArray, Case, Recipe
from harness.contract import KERNELS, OK
from harness.expect import expected_outputs
from harness.judge import judge
from harness.memory.buffers import Arena, poison_of
from harness.memory.space import Space
from harness.results import Outcome
from harness.shapes import bind, shape_in
from harness.targets.arguments import kernel_args
from harness.targets.engine import Engine
from harness.targets.library_target import LibraryTarget
from references import kv_commit

TAIL_PAGES = 2  # that hold a request's tail; nothing else stands in them
Arrays = Mapping[str, AnyArray]


class Checked(Protocol):
    """What can be timed, and says whether its buffers hold what they should."""

    in_place: bool  # a second call finds other inputs: only the first one's outputs are known

    def stage(self, poison: int) -> None:
        """Write inputs anew, fill outputs with poison number ``poison``."""

    def call(self) -> int:
        """Enqueue it once; a status."""

    def wrong(self) -> str:
        """What differs from the references; empty where nothing does."""


class Call:
    """One kernel on one input set. ``elsewhere``: addresses of inputs that other calls own."""

    in_place = False

    def __init__(
        self, engine: Engine, kernel: str, inputs: Mapping[str, Any], scalars: Mapping[str, int],
        expected: Arrays, elsewhere: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self._engine, self._kernel, self._expected = engine, KERNELS[kernel], expected
        self._dims = bind(self._kernel, inputs, scalars)
        own = {n: v for n, v in inputs.items() if isinstance(v, np.ndarray) and n not in (elsewhere or {})}
        self._outputs = [a for a in self._kernel.arrays if a.role == "out"]
        sizes = {n: v.nbytes for n, v in own.items()}
        sizes |= {a.name: array_bytes(a, self._dims) for a in self._outputs}
        self._arena = Arena(engine.space, sizes, 0)
        self._read = tuple(own)
        for name, value in own.items():
            self._arena.view(name, value.dtype, value.shape)[...] = value
        places = {name: self._arena.address(name) for name in sizes} | dict(elsewhere or {})
        self._args = kernel_args(kernel, places.__getitem__, self._dims, scalars)
        self._workspace = engine.workspace(kernel, self._args, 0)

    def address(self, name: str) -> int:
        """Where an own array stands."""
        return self._arena.address(name)

    def stage(self, poison: int) -> None:
        """Inputs and poisoned outputs, in one copy."""
        for array in self._outputs:
            self._arena.fill(array.name, poison_of(poison))
        self._arena.seal()

    def call(self) -> int:
        """The kernel, once."""
        return self._engine.call(self._kernel.name, self._args, self._workspace)

    def wrong(self) -> str:
        """Outputs that differ in a bit, inputs that were changed, guards that were hit."""
        self._arena.fetch()
        found = [f"{name} was changed" for name in self._read if self._arena.changed(name)]
        for array in self._outputs:
            got = self._arena.read(array.name, array.numpy_dtype, shape_in(array, self._dims))
            if not np.array_equal(got, self._expected[array.name]):
                found.append(f"{array.name} differs from the reference")
        return "; ".join((*found, *self._arena.guard_hits()))


class Pool:
    """A paged pool [Y,G,S,R] of bytes on the device, every layer far from the next."""

    def __init__(self, space: Space, layers: int, pages: int, slots: int, row: int) -> None:
        self._space, self.slots, self.layers, self.row = space, slots, layers, row
        self._shape = (layers, pages, slots, row)
        self._page, self._layer = slots * row, pages * slots * row
        self._block = space.allocate(layers * self._layer)
        self._bases = Arena(space, {"layer_base": 8 * layers}, 0)
        bases = self._block.address + self._layer * np.arange(layers, dtype=np.uint64)
        self._bases.view("layer_base", np.uint64)[:] = bases
        self._bases.seal()

    @property
    def layer_base(self) -> int:
        """The address of the layers' addresses."""
        return self._bases.address("layer_base")

    @property
    def address(self) -> int:
        """Where the first layer begins."""
        return self._block.address

    @property
    def layer_bytes(self) -> int:
        """From one layer to the next."""
        return self._layer

    def offsets(self, table: AnyArray, slots: AnyArray) -> list[int]:
        """Bytes from the start of a layer to the rows of ``slots``, of the request with this block table."""
        pages, inside = np.divmod(slots, self.slots)
        return [int(at) for at in table[pages].astype(np.int64) * self._page + inside * self.row]

    @property
    def recipe(self) -> Recipe:
        """A value of the pool's shape; its elements are never asked for."""
        return Recipe("bytes", 0, self._shape)

    def random(self, seed: int, pages: int) -> AnyArray:
        """Bytes for some pages in every layer, uint8 [Y,pages,S,R]."""
        layers, _, slots, row = self._shape
        data = np.random.default_rng(seed).bytes(layers * pages * slots * row)
        return np.frombuffer(data, np.uint8).reshape(layers, pages, slots, row)

    def write(self, first_page: int, data: AnyArray) -> None:
        """Put ``data`` uint8 [Y,pages,S,R] there."""
        for number, layer in enumerate(data):
            self._space.upload(self._at(number, first_page), layer.reshape(-1))

    def read(self, first_page: int, pages: int) -> AnyArray:
        """What stands there now, uint8 [Y,pages,S,R]."""
        layers, _, slots, row = self._shape
        data = np.empty((layers, pages, slots, row), np.uint8)
        for number, layer in enumerate(data):
            self._space.download(self._at(number, first_page), layer.reshape(-1))
        return data

    def _at(self, layer: int, page: int) -> int:
        return self._block.address + layer * self._layer + page * self._page


class Commit:
    """kv_commit of one request on the pages that ``inputs`` map for its tail: nobody else's in the pool."""

    in_place = True

    def __init__(
        self, engine: Engine, pool: Pool, inputs: Arrays, seed: int, elsewhere: Mapping[str, int]
    ) -> None:
        prefix = int(inputs["prefix_len"][0])
        first, inside = divmod(prefix, pool.slots)
        pages = inputs["block_table"][0, first : first + TAIL_PAGES]
        self._pool, self._first = pool, int(pages[0])
        self._before = pool.random(seed, len(pages))
        local = {"block_table": np.arange(len(pages), dtype=np.int32)[None]}
        local |= {"prefix_len": np.array([inside], np.int32)}
        expected = kv_commit(kv=self._before, **{**inputs, **local})
        self._after = expected["kv"]
        new_len = {"new_len": expected["new_len"] + np.int32(prefix - inside)}
        places = {**elsewhere, "layer_base": pool.layer_base}
        self._call = Call(engine, "kv_commit", {"kv": pool.recipe, **inputs}, {}, new_len, places)

    def stage(self, poison: int) -> None:
        """The pages as they were."""
        self._call.stage(poison)
        self._pool.write(self._first, self._before)

    def address(self, name: str) -> int:
        """Where an own array of the call stands."""
        return self._call.address(name)

    def call(self) -> int:
        """The kernel, once."""
        return self._call.call()

    def wrong(self) -> str:
        """What differs, in the pages or in new_len."""
        same = np.array_equal(self._pool.read(self._first, len(self._before[0])), self._after)
        return "; ".join(filter(None, ["" if same else "kv differs from the reference", self._call.wrong()]))


class Chain:
    """Calls one after another, each on what those before it left."""

    in_place = True

    def __init__(self, calls: Sequence[Checked]) -> None:
        self._calls = calls

    def stage(self, poison: int) -> None:
        """All of them."""
        for call in self._calls:
            call.stage(poison)

    def call(self) -> int:
        """All of them, up to the first that fails; a status."""
        return next((status for status in (c.call() for c in self._calls) if status != OK), OK)

    def wrong(self) -> str:
        """What differs in any of them."""
        return "; ".join(filter(None, (call.wrong() for call in self._calls)))


class Step:
    """greedy_step with its own pool, judged as a verify judges it."""

    in_place = True

    def __init__(self, target: LibraryTarget, inputs: Arrays, scalars: Mapping[str, Any]) -> None:
        kernel = KERNELS["greedy_step"]
        expected = expected_outputs("greedy_step", inputs, scalars)
        self._case = Case("step", "greedy_step", "", (), "attention", "valid", 0, inputs, scalars, expected)
        self._target = target
        self._copy = StepCopy(target.engine, inputs, scalars, bind(kernel, inputs, scalars), 0, None)

    def stage(self, poison: int) -> None:
        """Everything anew, and the planning call."""
        self._copy.stage(poison)
        self._copy.plan()

    def call(self) -> int:
        """The step, once."""
        return self._copy.call()

    def wrong(self) -> str:
        """The judge's message."""
        verdict = judge(self._case, observed(self._target, [self._copy.round()]))
        return "" if verdict.outcome == Outcome.PASS else f"{verdict.outcome}: {verdict.message}"
