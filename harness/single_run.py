"""One kernel call on a target in this process, for people and notebooks."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import AnyArray, Value, materialize
from harness.errors import HarnessError
from harness.observation import Job
from harness.shapes import bind, kernel_named
from harness.targets import open_target


def run_once(
    kernel: str, inputs: Mapping[str, Value], target: str, scalars: Mapping[str, int | float]
) -> dict[str, AnyArray]:
    """The outputs of one call; see `harness.run`."""
    bind(kernel_named(kernel), inputs, scalars)
    opened = open_target(target)
    job = Job(kernel, {name: materialize(value) for name, value in inputs.items()}, scalars)
    refusal = opened.refusal(job)
    if refusal is not None:
        raise HarnessError(f"{target} does not serve this call: {refusal.message}")
    seen = opened.run_round(job, 0)
    if seen.status != "done":
        raise HarnessError(f"{target}: {seen.message}")
    faults = [*seen.guard_hits, *(f"changed its input {name}" for name in seen.mutated), *seen.malformed]
    if faults:
        raise HarnessError(f"{target}: {'; '.join(faults)}")
    return {name: value.copy() for name, value in seen.outputs.items()}
