"""One of the four kernels on a library: stage, call, bring back, inspect.

The first run is one call on fresh memory. In the second the library is first called with other inputs on the
same buffers and workspace; then the outputs are poisoned again, the inputs replaced, and the call that counts
follows. On a device the inputs of that call arrive late on its stream, so that work on another stream meets
the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import AnyArray
from harness.contract import KERNELS
from harness.observation import Round
from harness.shapes import PAGE_STRIDE, Dims
from harness.targets.arguments import kernel_args
from harness.targets.capability import plan_hints
from harness.targets.decoy import decoy
from harness.targets.engine import Engine, Refused
from harness.targets.staging import Staging


def run_single(
    engine: Engine,
    kernel_name: str,
    inputs: Mapping[str, AnyArray],
    scalars: Mapping[str, int | float],
    dims: Dims,
    round_index: int,
) -> Round:
    """One run of a kernel other than greedy_step on fresh, poisoned, guarded memory."""
    kernel = KERNELS[kernel_name]
    hits: tuple[str, ...] = ()
    staging = Staging(engine, kernel, dims, int(scalars.get(PAGE_STRIDE, 0)), round_index)
    args = kernel_args(kernel_name, staging.address, dims, scalars)
    try:
        workspace = engine.workspace(kernel_name, args, round_index)
        workspace.arena.seal()

        def call() -> int:
            return engine.call(kernel_name, args, workspace)

        if round_index % 2:
            other = decoy(kernel, inputs)
            staging.stage(other, inputs)
            staging.seal()
            engine.plan(kernel_name, args, plan_hints(other, dims))
            status, _ = engine.timed((staging, workspace.arena), call)
            state, message = engine.verdict(status, kernel.symbol)
            hits = staging.guard_hits()
            if state != "done":
                return Round(state, f"called with other valid inputs: {message}", guard_hits=hits)
        staging.stage(inputs, inputs)
        engine.plan(kernel_name, args, plan_hints(inputs, dims))
        if round_index % 2 and engine.delays is not None:
            staging.seal_behind(engine.delays)
        else:
            staging.seal()
    except Refused as refused:
        return engine.refused_round(refused)
    status, seconds = engine.timed((staging, workspace.arena), call)
    engine.keep(staging, workspace.arena)
    state, message = engine.verdict(status, kernel.symbol)
    return Round(
        state,
        message,
        outputs=staging.outputs() if state == "done" else {},
        guard_hits=hits + staging.guard_hits() + workspace.arena.guard_hits(),
        mutated=staging.mutated(),
        seconds=seconds,
    )
