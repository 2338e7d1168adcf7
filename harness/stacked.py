"""The outputs of many small cases by few calls of the reference.

What a small case costs is the number of NumPy calls, not their work. Where the requests of a batch stand
alone, neighbouring cases of the same sizes go through the reference as one batch, and are then taken apart.
The outputs are those of one call for each, bit for bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from harness.case import AnyArray, materialize
from harness.expect import Inputs, Scalars, run_reference

_INDEPENDENT = ("tree_build", "tree_accept")  # requests stand alone, and every output has the batch first
_SHARED = ("stop_token",)  # inputs of these kernels that have no batch


def likeness(kernel: str, inputs: Inputs, scalars: Scalars) -> Hashable:
    """Equal for cases that `stacked_outputs` may take together; None for a case that goes alone."""
    if kernel not in _INDEPENDENT:
        return None
    alike: list[Hashable] = [(name, type(value), value) for name, value in scalars.items()]
    batches = set()
    for name, array in inputs.items():
        if not isinstance(array, np.ndarray) or array.ndim == 0:
            return None
        if name in _SHARED:
            alike.append((name, array.dtype, array.shape, array.tobytes()))
        else:
            alike.append((name, array.dtype, array.shape[1:]))
            batches.add(len(array))
    return tuple(alike) if len(batches) == 1 else None


def stacked_outputs(kernel: str, many: Sequence[Inputs], scalars: Scalars) -> list[dict[str, AnyArray]]:
    """`run_reference` for each of ``many``, which are alike. ValueError where one breaks the contract."""
    parts = {name: [materialize(inputs[name]) for inputs in many] for name in many[0]}
    together = {name: each[0] if name in _SHARED else np.concatenate(each) for name, each in parts.items()}
    batches = next([len(array) for array in each] for name, each in parts.items() if name not in _SHARED)
    outputs = run_reference(kernel, together, scalars)
    return [
        {name: array[start:stop] for name, array in outputs.items()}
        for start, stop in pairwise(accumulate(batches, initial=0))
    ]
