"""The outputs of many small cases by few calls of the reference.

What a small case costs is the number of NumPy calls, not their work. Where the requests of a batch stand
alone, cases of the same sizes go through the reference as one batch, and are then taken apart. The outputs
are those of one call for each, bit for bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from harness.case import AnyArray, materialize
from harness.expect import Inputs, Scalars, run_reference

STACKED = ("tree_build", "tree_accept")  # requests stand alone, and every output has the batch first
_SHARED = ("stop_token",)  # inputs of these kernels that have no batch


def outputs_of_all(kernel: str, asked: Sequence[tuple[Inputs, Scalars]]) -> list[dict[str, AnyArray]]:
    """`run_reference` for each of ``asked``, in order. ``kernel`` is one of `STACKED`.

    ValueError where one breaks the contract.
    """
    alike = defaultdict[Hashable, list[int]](list)
    for place, (inputs, scalars) in enumerate(asked):
        alike[_sizes(inputs, scalars) or place].append(place)
    outputs = dict[int, dict[str, AnyArray]]()
    for places in alike.values():
        stack = [asked[place][0] for place in places]
        outputs.update(zip(places, _outputs_of_stack(kernel, stack, asked[places[0]][1]), strict=True))
    return [outputs[place] for place in range(len(asked))]


def _sizes(inputs: Inputs, scalars: Scalars) -> Hashable:
    """All but the requests: what cases of one stack have in common. None where the batches do not agree."""
    sizes: list[Hashable] = [(name, type(value), value) for name, value in scalars.items()]
    batches = set()
    for name, value in inputs.items():
        array = materialize(value)
        if name in _SHARED:
            sizes.append((name, array.dtype, array.shape, array.tobytes()))
        else:
            sizes.append((name, array.dtype, array.shape[1:]))
            batches.add(array.shape[:1])
    return tuple(sizes) if len(batches) == 1 else None


def _outputs_of_stack(kernel: str, stack: Sequence[Inputs], scalars: Scalars) -> list[dict[str, AnyArray]]:
    if len(stack) == 1:
        return [run_reference(kernel, stack[0], scalars)]
    parts = {name: [materialize(inputs[name]) for inputs in stack] for name in stack[0]}
    together = {name: each[0] if name in _SHARED else np.concatenate(each) for name, each in parts.items()}
    batches = next([len(array) for array in each] for name, each in parts.items() if name not in _SHARED)
    outputs = run_reference(kernel, together, scalars)
    return [
        {name: array[start:stop] for name, array in outputs.items()}
        for start, stop in pairwise(accumulate(batches, initial=0))
    ]
