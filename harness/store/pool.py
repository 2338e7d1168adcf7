"""One array of every case of a file: where its values lie, checked against itself, and read by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import h5py
import numpy as np
import numpy.typing as npt

from harness.case import ROW_AXES, AnyArray, Expected
from harness.store.encode import ABSENT, PATCHED, PLAIN, RECIPE, RECIPE_KINDS, SAMPLED, decode
from harness.store.file import PinnedFile

_MAX_BYTES = 1 << 36  # of one value, recipes included
_HELD = 1 << 20  # bytes of a pool that is held rather than read value by value
_NO_ROWS = np.empty(0, "<i8")


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
    """One array of every case. Its columns are lists: a case takes single items of them."""

    logical: str
    axes: int
    encoding: list[int]
    shapes: list[tuple[int, ...]]
    offsets: list[int]
    values: _Pool
    kinds: list[int]  # of recipes; empty where the array has none
    seeds: list[int]
    row_offsets: list[int]  # of patches and samples; empty where the array has none
    rows: _Pool | None

    def value(self, i: int) -> Expected:
        """The value of case ``i``, which must not be absent."""
        code, rows, kind, seed = self.encoding[i], _NO_ROWS, 0, 0
        data = self.values.part(self.offsets[i], self.offsets[i + 1])
        if code in (PATCHED, SAMPLED) and self.rows is not None:
            rows = self.rows.part(self.row_offsets[i], self.row_offsets[i + 1])
        if code in (RECIPE, PATCHED):
            kind, seed = self.kinds[i], self.seeds[i]
        return decode(code, self.logical, self.shapes[i], data, rows, kind, seed)


def read_column(file: PinnedFile, dataset: h5py.Dataset, count: int) -> AnyArray:
    """A dataset with one row per case."""
    shape = dataset.shape
    if not shape or shape[0] != count:
        raise file.error(f"has shape {shape} where {count} rows belong", dataset.name)
    return file.whole(dataset)


def read_array(file: PinnedFile, group: h5py.Group, count: int) -> ArrayIndex:
    """The index of one array of ``count`` cases. FixtureError where its parts do not fit each other."""
    parts = dict(group.items())
    pools = {name: _Pool(file, parts[name]) for name in ("values", "rows") if name in parts}
    lengths = {"encoding": count, "shapes": count, "offsets": count + 1}
    optional = {"recipe_kind": count, "recipe_seed": count, "row_offsets": count + 1}
    lengths |= {name: length for name, length in optional.items() if name in parts}
    columns = {name: read_column(file, parts[name], length) for name, length in lengths.items()}
    for offsets, pool in (("offsets", "values"), ("row_offsets", "rows")):
        if offsets in columns and pool in pools:
            _check_offsets(file, f"{group.name}/{offsets}", columns[offsets], pools[pool].count)
    _check_values(file, group.name, columns, pools["values"].dtype.itemsize)
    items = {name: column.tolist() for name, column in columns.items()}
    return ArrayIndex(
        logical=str(parts["values"].attrs["logical_dtype"]),
        axes=columns["shapes"].shape[1],
        encoding=items["encoding"],
        shapes=[tuple(shape) for shape in items["shapes"]],
        offsets=items["offsets"],
        values=pools["values"],
        kinds=items.get("recipe_kind", []),
        seeds=items.get("recipe_seed", []),
        row_offsets=items.get("row_offsets", []),
        rows=pools.get("rows"),
    )


def _check_offsets(file: PinnedFile, name: str, offsets: AnyArray, count: int) -> None:
    if offsets[0] != 0 or offsets[-1] != count or (np.diff(offsets) < 0).any():
        raise file.error("is not rising from 0 to the pool's length", name)


def _check_values(file: PinnedFile, name: str, columns: Mapping[str, AnyArray], itemsize: int) -> None:
    """Refuse a value that no memory holds, and one whose parts are not what its encoding asks for."""
    shapes = columns["shapes"]
    large = shapes.astype(np.float64).prod(axis=1) * itemsize > _MAX_BYTES
    bad = np.flatnonzero((shapes < 0).any(axis=1) | large)
    if bad.size:
        shape = shapes[bad[0]].tolist()
        raise file.error(f"shape {shape} of case {bad[0]} is out of bounds", f"{name}/shapes")
    bad = np.flatnonzero(~_fitting(columns))
    if bad.size:
        shape = shapes[bad[0]].tolist()
        raise file.error(f"case {bad[0]} does not fit its shape {shape}", f"{name}/encoding")


def _fitting(columns: Mapping[str, AnyArray]) -> npt.NDArray[np.bool_]:
    """For every case, whether what is stored is what its encoding and shape ask for."""
    code, shapes, stored = columns["encoding"], columns["shapes"], np.diff(columns["offsets"])
    never = np.zeros(len(code), np.bool_)
    patched, sampled = never, never
    if "row_offsets" in columns:
        rows = np.diff(columns["row_offsets"])
        patched = stored == rows * shapes[:, -1:].prod(axis=1)
        sampled = stored == rows * shapes[:, ROW_AXES:].prod(axis=1)
    known = never
    if "recipe_kind" in columns and "recipe_seed" in columns:
        known = columns["recipe_kind"] < len(RECIPE_KINDS)
    fits = {
        ABSENT: stored == 0,
        PLAIN: stored == shapes.prod(axis=1),
        RECIPE: known & (stored == 0),
        PATCHED: known & patched,
        SAMPLED: sampled,
    }
    return np.select([code == number for number in fits], list(fits.values()), never)
