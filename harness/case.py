"""A case: one replayable unit of inputs, expected outputs, flags and comparison policy.

Arrays are plain NumPy arrays, or values that are computed instead of stored: a `Recipe` (a counter-based
integer hash) or a `Patched` recipe (some rows replaced). Both materialise to the same bits on every
machine and NumPy release, so large KV pools cost a few bytes in a fixture file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
RecipeKind = Literal["bytes", "unit_bf16"]
Policy = Literal["exact", "attention"]
Validity = Literal["valid", "invalid"]

_CHUNK = 1 << 16  # words hashed at a time: they stay in the cache
_PIECE = 1 << 22  # elements compared at a time
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def hash_words(seed: int, count: int, first: int = 0) -> npt.NDArray[np.uint64]:
    """Words ``first`` .. ``first + count - 1``.

    Word i is the splitmix64 finaliser of seed + (i + 1) * golden ratio (mod 2^64).
    """
    x = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    x *= _GOLDEN
    x += np.uint64(seed % 2**64)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def small_integer_bf16(values: AnyArray, shift: int) -> npt.NDArray[np.uint16]:
    """bf16 bits of ``values / 2**shift`` for integers of at most 8 significant bits (exact)."""
    scaled = np.ldexp(values.astype(np.float32), -shift)
    return (scaled.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


@dataclass(frozen=True)
class Recipe:
    """An array whose element i comes from byte i of the hash of ``seed``.

    ``bytes``: uint8, the byte itself. ``unit_bf16``: bf16 bits of (2 byte - 255) / 256: all 8 bits.
    """

    kind: RecipeKind
    seed: int
    shape: tuple[int, ...]

    def materialize(self) -> AnyArray:
        """The array: uint8 or bf16 bits, of ``shape``."""
        return self.elements(0, int(np.prod(self.shape, dtype=np.int64))).reshape(self.shape)

    def elements(self, start: int, stop: int) -> AnyArray:
        """Elements ``start`` .. ``stop - 1`` of the flattened array."""
        first, end = start // 8, -(-stop // 8)
        raw = np.empty(8 * max(end - first, 0), np.uint8)
        words = raw.view("<u8")
        for at in range(first, end, _CHUNK):
            count = min(_CHUNK, end - at)
            words[at - first : at - first + count] = hash_words(self.seed, count, at)
        part = raw[start - 8 * first : stop - 8 * first]
        if self.kind == "bytes":
            return part
        return small_integer_bf16(2 * np.arange(256) - 255, 8)[part]


@dataclass(frozen=True)
class Patched:
    """A recipe seen as rows of its last axis, with ``rows`` (rising int64) replaced by ``values`` [n, R]."""

    base: Recipe
    rows: npt.NDArray[np.int64]
    values: AnyArray

    def materialize(self) -> AnyArray:
        """The array: dtype and shape of ``base``."""
        array = self.base.materialize()
        array.reshape(-1, array.shape[-1])[self.rows] = self.values
        return array

    @classmethod
    def difference(cls, base: Recipe, array: AnyArray) -> Patched:
        """The patch that turns ``base`` into ``array`` (same shape and dtype)."""
        width = array.shape[-1]
        after = np.ascontiguousarray(array).reshape(-1, width)
        step = max(1, _PIECE // width)
        found = [np.empty(0, np.int64)]
        for at in range(0, len(after), step):
            piece = after[at : at + step]
            before = base.elements(at * width, at * width + piece.size).reshape(piece.shape)
            found.append(at + np.flatnonzero((before != piece).any(axis=1)))
        rows = np.concatenate(found)
        return cls(base, rows.astype(np.int64), after[rows].copy())


Value = AnyArray | Recipe | Patched
ROW_AXES = 3  # of an attention output: request, node, head


@dataclass(frozen=True)
class Sampled:
    """An expected array [B,N,Hq,..] of which some rows are known.

    ``rows`` are rising int64 places in [B*N*Hq], ``values`` [n,..] what stands there.
    """

    shape: tuple[int, ...]
    rows: npt.NDArray[np.int64]
    values: AnyArray

    def pick(self, array: AnyArray) -> AnyArray:
        """The known rows of another array of this shape."""
        picked: AnyArray = array.reshape(-1, *self.shape[ROW_AXES:])[self.rows]
        return picked

    def filled(self, fill: AnyArray) -> AnyArray:
        """``fill`` (of this shape) with the known rows in place."""
        array = fill.copy()
        array.reshape(-1, *self.shape[ROW_AXES:])[self.rows] = self.values
        return array


Expected = Value | Sampled


def materialize(value: Value) -> AnyArray:
    """The plain array of a value."""
    return value if isinstance(value, np.ndarray) else value.materialize()


def known(value: Expected) -> AnyArray:
    """What is known of an expected value: the plain array, or its sampled rows alone [n,..]."""
    return value.values if isinstance(value, Sampled) else materialize(value)


def row_values(value: Value, rows: npt.NDArray[np.int64]) -> AnyArray:
    """Rows [n,R] of a value seen as rows of its last axis; of a recipe, without the others."""
    if isinstance(value, np.ndarray):
        picked: AnyArray = value.reshape(-1, value.shape[-1])[rows]
        return picked
    if isinstance(value, Recipe):
        width = value.shape[-1]
        made = [value.elements(row * width, (row + 1) * width) for row in rows.tolist()]
        return np.stack(made) if made else value.elements(0, 0).reshape(0, width)
    picked = row_values(value.base, rows)
    place = np.minimum(np.searchsorted(value.rows, rows), max(len(value.rows) - 1, 0))
    if len(value.rows):
        hit = value.rows[place] == rows
        picked[hit] = value.values[place[hit]]
    return picked


@dataclass(frozen=True)
class Case:
    """One replayable unit.

    ``inputs`` and ``expected`` are keyed by the contract's array names. Expected attention outputs are
    ``out`` and ``lse`` with what their allowance needs beside them: ``out_m``, ``lse_d`` (float32) and
    ``visible`` (int32); see `harness.judge.compare`. All of these but ``visible`` may be `Sampled`, with the
    same rows. ``notes`` are numbers that the generator proved.
    """

    case_id: str
    kernel: str
    family: str
    flags: tuple[str, ...]
    policy: Policy
    validity: Validity
    seed: int
    inputs: Mapping[str, Value]
    scalars: Mapping[str, int | float]
    expected: Mapping[str, Expected]
    notes: Mapping[str, float] = field(default_factory=dict)
