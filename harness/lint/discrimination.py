"""Lint: a case can fail. Its own comparison must refuse outputs that a broken kernel would give.

Tried are outputs that are all zero, of one constant, never written (each poison), all NaN, and copies of an
input wherever one has the output's dtype and shape: in ``out`` alone, in ``lse`` alone, and in all integer
outputs at once. Attention cases must also tell wrong masks (`harness.lint.attention`). Flags that name a
degenerate case exempt it. The expected outputs themselves must pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.case import AnyArray, Case
from harness.contract import KERNELS, Array
from harness.judge.compare import compare_case
from harness.judge.rows import sample_of, whole
from harness.lint.attention import attention_findings
from harness.memory.buffers import POISONS
from harness.shapes import outputs_of
from references import float_to_bf16

Arrays = Mapping[str, AnyArray]
DEGENERATE = frozenset({"root_only", "empty"})
_NAN = {"bf16": np.uint16(0x7FC0), "f32": np.float32(np.nan)}


def discrimination_findings(case: Case, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    """One line for each wrong output that the case would accept."""
    arrays = outputs_of(KERNELS[case.kernel], case.inputs)
    right = {array.name: _as_given(array, _whole(case, array, expected)) for array in arrays}
    if not compare_case(case, right).right:
        yield "refuses its own expected outputs"
    if not DEGENERATE & set(case.flags):
        for what, outputs in wrong_outputs(arrays, right, inputs):
            if compare_case(case, outputs).right:
                yield f"accepts {what}"
    if case.policy == "attention":
        yield from attention_findings(case)


def wrong_outputs(
    arrays: tuple[Array, ...], right: Arrays, inputs: Arrays
) -> Iterator[tuple[str, dict[str, AnyArray]]]:
    """Named sets of outputs, each right but for one group of arrays."""
    integers = [array for array in arrays if array.dtype not in _NAN or array.name == "kv"]
    floats = [[array] for array in arrays if array not in integers]
    for group in (integers, *floats) if integers else floats:
        where = group[0].name if group in floats else "integer outputs"
        for what, wrong in _wrong(group, right, inputs):
            yield f"{what} {where}", {**right, **wrong}


def _wrong(group: list[Array], right: Arrays, inputs: Arrays) -> Iterator[tuple[str, dict[str, AnyArray]]]:
    yield "all-zero", {a.name: np.zeros_like(right[a.name]) for a in group}
    yield "constant", {a.name: _constant(right[a.name]) for a in group}
    for poison in POISONS:
        yield f"unwritten (0x{poison:02x})", {a.name: _poisoned(right[a.name], poison) for a in group}
    if len(group) == 1 and group[0].dtype in _NAN:
        yield "all-NaN", {a.name: np.full_like(right[a.name], _NAN[a.dtype]) for a in group}
    copies = {a.name: _copied(a, right[a.name], inputs) for a in group}
    if any(copy is not None for copy in copies.values()):
        zeros = {a.name: np.zeros_like(right[a.name]) for a in group}
        yield "copied", {name: zeros[name] if copy is None else copy for name, copy in copies.items()}


def _whole(case: Case, array: Array, expected: Arrays) -> AnyArray:
    return whole(case.expected, array.name) if sample_of(case.expected) else expected[array.name]


def _as_given(array: Array, expected: AnyArray) -> AnyArray:
    """An expected array in the dtype that a target gives back."""
    is_bits = array.dtype == "bf16" and expected.dtype.kind == "f"
    return float_to_bf16(expected.astype(np.float64)) if is_bits else expected


def _constant(right: AnyArray) -> AnyArray:
    """The value in the middle, everywhere."""
    return np.full_like(right, right.reshape(-1)[right.size // 2] if right.size else 0)


def _poisoned(right: AnyArray, poison: int) -> AnyArray:
    return np.full(right.nbytes, poison, np.uint8).view(right.dtype).reshape(right.shape)


def _copied(array: Array, right: AnyArray, inputs: Arrays) -> AnyArray | None:
    """An input that fits: the array's own where it is in and out, else the first of its dtype and shape."""
    own = inputs.get(array.name)
    candidates = list(inputs.values()) if own is None else [own]
    return next((c for c in candidates if c.dtype == right.dtype and c.shape == right.shape), None)
