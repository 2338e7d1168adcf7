"""Many small cases by few calls of the references.

What a small case costs is the number of NumPy calls, not their work. Where the requests of a batch stand
alone, cases of the same sizes go through a reference as one batch, and are then taken apart. The outputs
are those of one call for each, bit for bit.

Work that needs such outputs on its way is a generator: it yields what it asks and is sent the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Hashable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from harness.case import AnyArray, materialize
from harness.expect import Inputs, Scalars, run_reference

STACKED = ("tree_build", "tree_accept")  # requests stand alone, and every output has the batch first
_SHARED = ("stop_token",)  # inputs of these kernels that have no batch

Outputs = dict[str, AnyArray]
Result = TypeVar("Result")


class Asked(NamedTuple):
    """A call of a reference; ``kernel`` is one of `STACKED`."""

    kernel: str
    inputs: Inputs
    scalars: Scalars


Asking = Generator[Asked, Outputs, Result]


def run_together(works: Sequence[Asking[Result]]) -> list[Result]:
    """What each of ``works`` returns, in order. What they ask at the same time is answered together.

    Where inputs break the contract, ValueError is raised in the work that asked. Raises what a work raises.
    """
    results = dict[int, Result]()
    answers: dict[int, Outputs | Exception | None] = dict.fromkeys(range(len(works)))  # None begins a work
    while answers:
        asked = dict[int, Asked]()
        for place, answer in answers.items():
            try:
                asked[place] = _proceed(works[place], answer)
            except StopIteration as end:
                results[place] = end.value
        answers = dict(zip(asked, _answers(list(asked.values())), strict=True))
    return [results[place] for place in range(len(works))]


def _proceed(work: Asking[Result], answer: Outputs | Exception | None) -> Asked:
    if isinstance(answer, Exception):
        return work.throw(answer)
    return next(work) if answer is None else work.send(answer)


def _answers(asked: Sequence[Asked]) -> Sequence[Outputs | Exception]:
    try:
        return outputs_of_all(asked)
    except Exception:  # one of them is refused: which one shows when each is alone
        return [_outputs_or_error(one) for one in asked]


def _outputs_or_error(one: Asked) -> Outputs | Exception:
    try:
        return run_reference(*one)
    except Exception as error:
        return error


def outputs_of_all(asked: Sequence[Asked]) -> list[Outputs]:
    """`run_reference` for each of ``asked``, in order. ValueError where one breaks the contract."""
    alike = defaultdict[Hashable, list[int]](list)
    for place, one in enumerate(asked):
        alike[_sizes(one) or place].append(place)
    outputs = dict[int, Outputs]()
    for places in alike.values():
        outputs.update(zip(places, _outputs_of_stack([asked[place] for place in places]), strict=True))
    return [outputs[place] for place in range(len(asked))]


def _sizes(one: Asked) -> Hashable:
    """All but the requests: what calls of one stack have in common. None where the batches do not agree."""
    sizes: list[Hashable] = [one.kernel, *((name, type(n), n) for name, n in one.scalars.items())]
    batches = set()
    for name, value in one.inputs.items():
        array = materialize(value)
        if name in _SHARED:
            sizes.append((name, array.dtype, array.shape, array.tobytes()))
        else:
            sizes.append((name, array.dtype, array.shape[1:]))
            batches.add(array.shape[:1])
    return tuple(sizes) if len(batches) == 1 else None


def _outputs_of_stack(stack: Sequence[Asked]) -> list[Outputs]:
    if len(stack) == 1:
        return [run_reference(*stack[0])]
    kernel, inputs, scalars = stack[0]
    parts = {name: [materialize(one.inputs[name]) for one in stack] for name in inputs}
    together = {name: each[0] if name in _SHARED else np.concatenate(each) for name, each in parts.items()}
    batches = next([len(array) for array in each] for name, each in parts.items() if name not in _SHARED)
    outputs = run_reference(kernel, together, scalars)
    return [
        {name: array[start:stop] for name, array in outputs.items()}
        for start, stop in pairwise(accumulate(batches, initial=0))
    ]
