"""Draws that are equal on every machine and NumPy release.

Only raw 64-bit words of a named bit generator are used (NumPy promises its stream, not that of the
distribution methods), mapped to values by integer arithmetic.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

_HALF = np.uint64(32)  # bits


def case_seed(root_seed: int, kernel: str, family: str, params: str) -> int:
    """A 63-bit seed from the names, so that inserting a case changes no other."""
    text = f"{root_seed}/{kernel}/{family}/{params}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1


class _Key(np.random.bit_generator.ISeedSequence):
    """Hands Philox its key; ``Philox(key=...)`` would ask the system for entropy first, and drop it."""

    def __init__(self, seed: int) -> None:
        self._words = np.array([seed, 0], np.uint64)

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint64) -> npt.NDArray[np.uint64]:
        return self._words


class Draw:
    """A stream of draws: Philox4x64 keyed with ``seed``, 0 <= seed < 2^64."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._bits = np.random.Philox(_Key(seed))  # type: ignore[arg-type]  # the stubs know SeedSequence alone

    def words(self, shape: int | tuple[int, ...]) -> npt.NDArray[np.uint64]:
        """Raw 64-bit words."""
        words: npt.NDArray[np.uint64] = self._bits.random_raw(shape)
        return words

    def below(self, bound: int | tuple[int, ...], shape: int | tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Integers in [0, bound), bound <= 2^32: the high word of a 32-bit multiply.

        Several bounds are those of the rows [n,..] of an array.
        """
        high = self.words(shape) >> _HALF
        bounds = np.uint64(bound) if isinstance(bound, int) else _column(bound, high.ndim)
        return (high * bounds >> _HALF).view(np.int64)

    def integer(self, low: int, high: int) -> int:
        """One integer in [low, high] (inclusive), by the same map."""
        word = int(self._bits.random_raw())
        return low + ((word >> 32) * (high - low + 1) >> 32)

    def chance(self, percent: int, shape: int | tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """True with probability ``percent`` / 100."""
        return self.below(100, shape) < percent

    def permutation(self, count: int) -> npt.NDArray[np.int64]:
        """A permutation of 0..count-1 (order of distinct random words)."""
        return np.argsort(self.words(count), kind="stable").astype(np.int64)

    def distinct(self, bound: int, count: int) -> npt.NDArray[np.int64]:
        """``count`` distinct integers in [0, bound), in random order."""
        if count > bound:
            raise ValueError(f"cannot draw {count} distinct integers below {bound}")
        if bound <= 4 * count:
            return self.permutation(bound)[:count]
        seen: dict[int, None] = {}
        while len(seen) < count:
            seen.update(dict.fromkeys(self.below(bound, count).tolist()))
        return np.fromiter(seen, dtype=np.int64, count=len(seen))[:count]

    def choice(self, options: list[Any] | tuple[Any, ...]) -> Any:
        """One of ``options``."""
        return options[self.integer(0, len(options) - 1)]


@lru_cache(1 << 10)
def _column(numbers: tuple[int, ...], axes: int) -> npt.NDArray[np.uint64]:
    return np.array(numbers, np.uint64).reshape(-1, *[1] * (axes - 1))
