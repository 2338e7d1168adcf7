"""What passes between a supervisor and a target: a job (inputs only) and what was observed of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from harness.case import AnyArray, Value, materialize
from harness.contract import KERNELS
from harness.shapes import Dims, bind

# Starts the message of a refusal by a target that declares what the case needs; such a run fails.
DECLARED = "declared, but "

# done: the outputs are there. refused: the target does not serve this case. failed: it said it could not.
Status = Literal["done", "refused", "failed"]


@dataclass(frozen=True)
class Job:
    """One case as a target may know it: no expected values."""

    kernel: str
    inputs: Mapping[str, Value]
    scalars: Mapping[str, int | float]

    @cached_property
    def dims(self) -> Dims:
        """Sizes by dimension letter. UsageProblem where inputs and scalars do not fit the contract."""
        return bind(KERNELS[self.kernel], self.inputs, self.scalars)

    def materialized(self) -> Job:
        """This job with plain arrays."""
        if all(isinstance(value, np.ndarray) for value in self.inputs.values()):
            return self
        return Job(self.kernel, {name: materialize(v) for name, v in self.inputs.items()}, self.scalars)


@dataclass(frozen=True)
class Round:
    """One run of a job on fresh buffers."""

    status: Status
    message: str = ""
    outputs: Mapping[str, AnyArray] = field(default_factory=dict)
    malformed: tuple[str, ...] = ()  # outputs that are missing or no arrays (Python targets)
    guard_hits: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    before: tuple[Round, ...] = ()  # earlier tries of the same run: they show faults, but prove nothing


@dataclass(frozen=True)
class Observation:
    """All runs of a job. ``rounds[0]`` has every output, a later one those that differ from it in a byte."""

    status: Status
    message: str = ""
    rounds: tuple[Mapping[str, AnyArray], ...] = ()
    malformed: tuple[str, ...] = ()
    guard_hits: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    seconds: float | None = None
    absent: tuple[str, ...] = ()  # outputs that the target declares not to make
    lse_base2: bool = False
    poisoned: bool = False  # outputs were filled with `buffers.POISONS` before the runs
    notes: tuple[str, ...] = ()
