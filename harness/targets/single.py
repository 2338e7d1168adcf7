"""One of the four kernels, once, on a library: stage, call, bring back, inspect."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from harness.case import AnyArray
from harness.contract import KERNELS, Array, Kernel
from harness.memory import hostile
from harness.memory.buffers import Arena, poison_of
from harness.observation import Round
from harness.shapes import Dims, shape_in
from harness.targets.arguments import kernel_args
from harness.targets.capability import plan_hints
from harness.targets.engine import Engine, Refused


def nbytes_of(array: Array, shape: tuple[int, ...]) -> int:
    """Bytes of an array of the contract."""
    return math.prod(shape) * array.numpy_dtype.itemsize


def layer_names(layers: int) -> list[str]:
    """Each layer of a pool is an array of its own, with guards of its own."""
    return [f"kv[{y}]" for y in range(layers)]


def run_single(
    engine: Engine,
    kernel_name: str,
    inputs: Mapping[str, AnyArray],
    scalars: Mapping[str, int | float],
    dims: Dims,
    round_index: int,
) -> Round:
    """One call of a kernel other than greedy_step on fresh, poisoned, guarded memory."""
    kernel = KERNELS[kernel_name]
    arena = _stage(engine, kernel, inputs, dims, round_index)
    args = kernel_args(kernel_name, arena.address, dims, scalars)
    try:
        workspace = engine.workspace(kernel_name, args, round_index)
        arena.seal()
        workspace.arena.seal()
        engine.plan(kernel_name, args, plan_hints(inputs, dims))
    except Refused as refused:
        return engine.refused_round(refused)
    status, seconds = engine.timed(
        (arena, workspace.arena), lambda: engine.call(kernel_name, args, workspace)
    )
    engine.keep(arena, workspace.arena)
    state, message = engine.verdict(status, kernel.symbol)
    read_only = [a.name for a in kernel.arrays if a.role == "in"]
    read_only += [name for name in ("layer_base",) if arena.has(name)]
    return Round(
        state,
        message,
        outputs=_outputs(kernel, arena, dims) if state == "done" else {},
        guard_hits=arena.guard_hits() + workspace.arena.guard_hits(),
        mutated=tuple(name for name in read_only if arena.changed(name)),
        seconds=seconds,
    )


def _stage(
    engine: Engine, kernel: Kernel, inputs: Mapping[str, AnyArray], dims: Dims, round_index: int
) -> Arena:
    shapes = {a.name: shape_in(a, dims) for a in kernel.arrays}
    sizes: dict[str, int] = {}
    for array in kernel.arrays:
        if array.role == "inout":
            sizes["layer_base"] = 8 * dims["Y"]
            each = nbytes_of(array, shapes[array.name]) // dims["Y"]
            sizes.update(dict.fromkeys(layer_names(dims["Y"]), each))
        elif array.name != "lse" or engine.wants_lse:
            sizes[array.name] = nbytes_of(array, shapes[array.name])
    arena = Arena(engine.space, sizes, round_index)
    for array in kernel.arrays:
        if array.role == "in":
            arena.view(array.name, array.numpy_dtype, shapes[array.name])[...] = inputs[array.name]
        elif array.role == "inout":
            for name, layer in zip(layer_names(dims["Y"]), inputs[array.name], strict=True):
                arena.view(name, array.numpy_dtype, layer.shape)[...] = layer
            addresses = [arena.address(name) for name in layer_names(dims["Y"])]
            arena.view("layer_base", np.uint64)[:] = addresses
        elif arena.has(array.name):
            arena.fill(array.name, poison_of(round_index))
    if kernel.name == "verify_attn":
        _make_hostile(arena, inputs, dims, round_index)
    return arena


def _make_hostile(arena: Arena, inputs: Mapping[str, AnyArray], dims: Dims, round_index: int) -> None:
    rows = arena.view("kv", np.uint16, (-1, dims["R"]))
    rows[hostile.dead_attention_rows(inputs)] = hostile.pattern(round_index, dims["R"])
    queries = arena.view("q", np.uint16, inputs["q"].shape)
    dead = hostile.dead_queries(inputs["node_count"], dims["N"])
    queries[dead] = hostile.pattern(round_index, dims["Dk"])


def _outputs(kernel: Kernel, arena: Arena, dims: Dims) -> dict[str, AnyArray]:
    outputs: dict[str, AnyArray] = {}
    for array in kernel.outputs:
        shape, dtype = shape_in(array, dims), array.numpy_dtype
        if array.role == "inout":
            layers = [arena.read(name, dtype, shape[1:]) for name in layer_names(dims["Y"])]
            outputs[array.name] = np.stack(layers)
        elif arena.has(array.name):
            outputs[array.name] = arena.read(array.name, dtype, shape)
    return outputs
