"""Expected outputs of which a sample of rows is stored: where a row stands, what every right output shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from harness.case import ROW_AXES, AnyArray, Expected, Sampled, known
from harness.results import Mismatch

# Name of the array, bits that make a value not finite, and the answer of a row that sees nothing, as text.
_EXPONENT = {"out": 0x7F80, "lse": 0x7F800000}
_NOTHING = {"out": (0, "0.0"), "lse": (0xFF800000, "-inf")}
_SIGN = {"out": 0x8000, "lse": 0}


def sample_of(expected: Mapping[str, Expected]) -> Sampled | None:
    """The sample that a case stores, or None where it stores every row."""
    out = expected.get("out")
    return out if isinstance(out, Sampled) else None


def described(sample: Sampled) -> str:
    """How much a comparison covers, for a report."""
    return f"{len(sample.rows):,} of {int(np.prod(sample.shape[:ROW_AXES])):,} rows compared"


def placed(wrong: Mismatch, sample: Sampled) -> Mismatch:
    """A mismatch among the rows of a sample, with its index in the whole array."""
    row = np.unravel_index(int(sample.rows[wrong.index[0]]), sample.shape[:ROW_AXES])
    return replace(wrong, index=(*(int(i) for i in row), *wrong.index[1:]))


def whole(expected: Mapping[str, Expected], name: str) -> AnyArray:
    """All rows of ``out`` or ``lse``: the known ones, and what `impossible` lets pass in the others."""
    value = expected[name]
    if not isinstance(value, Sampled):
        return known(value)
    fill = np.zeros(value.shape, value.values.dtype)
    if name == "lse":
        fill[known(expected["visible"]) == 0] = -np.inf
    return value.filled(fill)


def impossible(name: str, got: AnyArray, visible: AnyArray) -> Mismatch | None:
    """The first element of ``out`` or ``lse`` [B,N,Hq,..] that no right output has, in any row.

    Every value of a node that sees a key is finite; ``visible`` [B,N] is 0 for the others, whose ``out`` is 0
    and whose ``lse`` is -inf.
    """
    bits = np.ascontiguousarray(got).view(f"u{got.itemsize}").reshape(got.shape)
    nothing, text = _NOTHING[name]
    bad: AnyArray = (bits & _EXPONENT[name]) == _EXPONENT[name]
    blind = visible == 0
    bad[blind] = (bits[blind] & ~np.array(_SIGN[name], bits.dtype)) != nothing
    if not bad.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
    want = text if blind[index[:2]] else "a finite value"
    got_text = f"0x{bits[index]:0{2 * got.itemsize}x}"
    return Mismatch(name, index, want, got_text, int(np.count_nonzero(bad)), bad.size)
