"""Shape and dtype checks shared by the references: one small class, no policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Outputs = dict[str, Array]


class Dims:
    """Binds dimension letters to sizes as arguments are checked; a clash raises ValueError.

    ``dims = Dims(N=65)``; ``dims.take("q", q, np.uint16, "B N Hq Dk")`` returns ``q`` unchanged, binds the
    letters seen for the first time and insists on the ones already bound. ``dims["B"]`` reads a size back.
    """

    def __init__(self, **known: int) -> None:
        self._known = dict(known)

    def __getitem__(self, letter: str) -> int:
        return self._known[letter]

    def take(self, name: str, value: object, dtype: type[np.generic] | None, letters: str) -> Array:
        """Return ``value`` if it is an array of ``dtype`` (None: any) whose axes are ``letters``."""
        names = letters.split()
        if not isinstance(value, np.ndarray):
            got = type(value).__name__
            raise ValueError(f"{name}: got {got}, want a NumPy array {self._want(dtype, names)}")
        known = dict(self._known)
        fits = len(names) == value.ndim and (dtype is None or value.dtype == dtype)
        if fits and all(
            [known.setdefault(n, size) == size for n, size in zip(names, value.shape, strict=True)]
        ):
            self._known = known
            return value
        got = f"{value.dtype.name}[{', '.join(str(s) for s in value.shape)}]"
        raise ValueError(f"{name}: got {got}, want {self._want(dtype, names)}")

    def _want(self, dtype: type[np.generic] | None, names: list[str]) -> str:
        kind = "any" if dtype is None else np.dtype(dtype).name
        return f"{kind}[{', '.join(f'{n}={self._known[n]}' if n in self._known else n for n in names)}]"


def whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int within ``low..high``; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name}: got {value!r}, want a whole number")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{name}: got {value}, want {low}..{'' if high is None else high}")
    return int(value)


def pool_rows(block_table: Array, request: int, slots: Array, pages: int, page_slots: int) -> Array:
    """Row numbers in the flattened pool [G*S] of logical ``slots`` of one request.

    ``block_table`` int32 [B,M]. Raises ValueError where a slot is not mapped to a page of the pool.
    """
    if slots.size == 0:
        return np.zeros(0, np.int64)
    index = slots // page_slots
    if int(slots.min()) < 0 or int(index.max()) >= block_table.shape[1]:
        raise ValueError(
            f"block_table: request {request} has {block_table.shape[1]} pages of {page_slots} slots, "
            f"want slots {int(slots.min())}..{int(slots.max())}"
        )
    page = block_table[request, index].astype(np.int64)
    if int(page.min()) < 0 or int(page.max()) >= pages:
        bad = int(page[(page < 0) | (page >= pages)][0])
        raise ValueError(f"block_table: got page {bad} in request {request}, want 0..{pages - 1}")
    rows: Array = page * page_slots + slots % page_slots
    return rows
