"""One array of every case of a file: where its values lie, checked against itself, and read by position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import h5py
import numpy as np

from harness.case import ROW_AXES, AnyArray, Expected
from harness.store.encode import ABSENT, PATCHED, PLAIN, RECIPE, RECIPE_KINDS, SAMPLED, decode
from harness.store.file import PinnedFile

_MAX_BYTES = 1 << 36  # of one value, recipes included
_HELD = 1 << 20  # bytes of a pool that is held rather than read value by value


class _Pool:
    """A 1-D dataset: read by file offset where it is large and contiguous, else held once it is needed."""

    def __init__(self, file: PinnedFile, dataset: h5py.Dataset) -> None:
        shape = dataset.shape
        if len(shape) != 1:
            raise file.error(f"has {len(shape)} axes", dataset.name)
        self._file, self._name, self._offset = file, dataset.name, dataset.id.get_offset()
        self.dtype, self.count = dataset.dtype, int(shape[0])
        self._held: AnyArray | None = None

    def part(self, start: int, stop: int) -> AnyArray:
        """Items start..stop-1, in an array that the caller owns."""
        if start == stop:
            return np.empty(0, self.dtype)
        if self._offset is not None and self.count * self.dtype.itemsize > _HELD:
            at = self._offset + start * self.dtype.itemsize
            return self._file.read(at, self.dtype, stop - start, self._name)
        if self._held is None:
            with self._file.hdf5() as file:
                self._held = self._file.whole(file[self._name])
        return self._held[start:stop].copy()


@dataclass(frozen=True)
class ArrayIndex:
    """One array of every case."""

    logical: str
    encoding: AnyArray
    shapes: AnyArray
    offsets: AnyArray
    values: _Pool
    kinds: AnyArray | None
    seeds: AnyArray | None
    row_offsets: AnyArray | None
    rows: _Pool | None

    def value(self, i: int) -> Expected:
        """The value of case ``i``, which must not be absent."""
        shape = tuple(self.shapes[i].tolist())
        data = self.values.part(int(self.offsets[i]), int(self.offsets[i + 1]))
        rows = np.empty(0, "<i8")
        if self.rows is not None and self.row_offsets is not None:
            rows = self.rows.part(int(self.row_offsets[i]), int(self.row_offsets[i + 1]))
        kind = int(self.kinds[i]) if self.kinds is not None else 0
        seed = int(self.seeds[i]) if self.seeds is not None else 0
        return decode(int(self.encoding[i]), self.logical, shape, data, rows, kind, seed)


def read_column(file: PinnedFile, dataset: h5py.Dataset, count: int) -> AnyArray:
    """A dataset with one row per case."""
    shape = dataset.shape
    if not shape or shape[0] != count:
        raise file.error(f"has shape {shape} where {count} rows belong", dataset.name)
    return file.whole(dataset)


def read_array(file: PinnedFile, group: h5py.Group, count: int) -> ArrayIndex:
    """The index of one array of ``count`` cases. FixtureError where its parts do not fit each other."""
    parts = dict(group.items())
    kinds, seeds, row_offsets, rows = map(parts.get, ("recipe_kind", "recipe_seed", "row_offsets", "rows"))
    array = ArrayIndex(
        logical=str(parts["values"].attrs["logical_dtype"]),
        encoding=read_column(file, parts["encoding"], count),
        shapes=read_column(file, parts["shapes"], count),
        offsets=read_column(file, parts["offsets"], count + 1),
        values=_Pool(file, parts["values"]),
        kinds=None if kinds is None else read_column(file, kinds, count),
        seeds=None if seeds is None else read_column(file, seeds, count),
        row_offsets=None if row_offsets is None else read_column(file, row_offsets, count + 1),
        rows=None if rows is None else _Pool(file, rows),
    )
    _check_offsets(file, group.name, array)
    for i, (code, shape) in enumerate(zip(array.encoding.tolist(), array.shapes.tolist(), strict=True)):
        if min(shape, default=0) < 0 or math.prod(shape) * array.values.dtype.itemsize > _MAX_BYTES:
            raise file.error(f"shape {shape} of case {i} is out of bounds", f"{group.name}/shapes")
        if not _fits(array, i, code, shape):
            raise file.error(f"case {i} does not fit its shape {shape}", f"{group.name}/encoding")
    return array


def _check_offsets(file: PinnedFile, name: str, array: ArrayIndex) -> None:
    pairs = [(array.offsets, array.values, "offsets")]
    if array.rows is not None and array.row_offsets is not None:
        pairs.append((array.row_offsets, array.rows, "row_offsets"))
    for offsets, pool, dataset in pairs:
        if offsets[0] != 0 or offsets[-1] != pool.count or (np.diff(offsets) < 0).any():
            raise file.error("is not rising from 0 to the pool's length", f"{name}/{dataset}")


def _fits(array: ArrayIndex, i: int, code: int, shape: list[int]) -> bool:
    """Whether what is stored for case ``i`` is what its encoding and shape ask for."""
    stored = int(array.offsets[i + 1] - array.offsets[i])
    if code in (RECIPE, PATCHED) and (
        array.kinds is None or array.seeds is None or int(array.kinds[i]) >= len(RECIPE_KINDS)
    ):
        return False
    if code in (PATCHED, SAMPLED):
        offsets, width = array.row_offsets, math.prod(shape[ROW_AXES:] if code == SAMPLED else shape[-1:])
        return offsets is not None and stored == int(offsets[i + 1] - offsets[i]) * width
    return {ABSENT: stored == 0, PLAIN: stored == math.prod(shape), RECIPE: stored == 0}.get(code, False)
