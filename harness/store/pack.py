"""Cases to one packed HDF5 file per kernel.

`harness.store.spool` has taken the bytes of the cases as they were made (in any process); `pack_file` copies
them, in the order of the list, into one pool per array. Memory holds one block. The result depends on the
cases alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from harness.case import AnyArray
from harness.contract import CONTRACT_VERSION
from harness.errors import HarnessError
from harness.store.encode import ABSENT, PATCHED, RECIPE, RECIPE_KINDS, SAMPLED, Role
from harness.store.manifest import SCHEMA, SCHEMA_VERSION, FileEntry, SetInfo, version_text
from harness.store.spool import Segment, SpooledCase, SpoolReader

TEXT_COLUMNS = ("case_id", "family", "flags", "validity", "policy", "scalars", "notes",
                "payload_sha256", "integrity_sha256")  # fmt: skip
_BLOCK = 4 << 20
_CHUNK_BYTES = 1 << 18
_WORTH_COMPRESSING = 1 << 10


def pack_file(path: Path, kernel: str, cases: Sequence[SpooledCase], info: SetInfo) -> FileEntry:
    """Write ``cases`` to ``path``, forced to disk. HarnessError where two cases cannot share a pool."""
    content = content_sha256(kernel, [case.text for case in cases], [case.seed for case in cases])
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs.update(_root_attributes(kernel, len(cases), info, content))
        columns = _Group(file, "cases")
        for name in TEXT_COLUMNS:
            columns.small(name, np.array([case.text[name].encode() for case in cases]))
        columns.small("seed", np.array([case.seed for case in cases], dtype="<i8"))
        present = {(value.role, value.name) for case in cases for value in case.values}
        with SpoolReader() as reader:
            for role, name in sorted(present):
                _write_array(_Group(file, f"{role}/{name}"), reader, role, name, cases)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return FileEntry(len(cases), path.stat().st_size, digest, content)


def content_sha256(kernel: str, text: Sequence[dict[str, str]], seeds: Sequence[int]) -> str:
    """The reproducible hash of a file, from its columns."""
    digest = hashlib.sha256(f"{kernel}\n".encode())
    for row, seed in zip(text, seeds, strict=True):
        digest.update(f"{row['case_id']} {row['family']} {seed} {row['payload_sha256']}\n".encode())
    return digest.hexdigest()


def _root_attributes(kernel: str, count: int, info: SetInfo, content: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "schema_version": version_text(SCHEMA_VERSION),
        "contract_version": version_text(CONTRACT_VERSION),
        "kernel": kernel,
        "suite": info.suite,
        "root_seed": info.root_seed,
        "case_count": count,
        "generator_version": info.generator_version,
        "reference_sha256": info.reference_sha256,
        "numpy_version": info.numpy_version,
        "python_version": info.python_version,
        "content_sha256": content,
    }


def _write_array(
    group: _Group, reader: SpoolReader, role: Role, name: str, cases: Sequence[SpooledCase]
) -> None:
    found = [next((v for v in case.values if (v.role, v.name) == (role, name)), None) for case in cases]
    values = [value for value in found if value is not None]
    kinds = {(value.dtype, value.head.logical_dtype, len(value.head.shape)) for value in values}
    if len(kinds) != 1:
        raise HarnessError(f"{cases[0].kernel}: {role} {name} has mixed dtypes or ranks {sorted(kinds)}")
    dtype, logical, rank = kinds.pop()
    shapes = np.array([v.head.shape if v else (0,) * rank for v in found], dtype="<i8").reshape(-1, rank)
    group.small("encoding", np.array([v.head.encoding if v else ABSENT for v in found], dtype="u1"))
    group.small("shapes", shapes)
    group.small("offsets", _offsets([v.data[2] // np.dtype(dtype).itemsize if v else 0 for v in found]))
    group.pool("values", np.dtype(dtype), [v.data for v in values], reader)["logical_dtype"] = logical
    encodings = {value.head.encoding for value in values}
    if encodings & {RECIPE, PATCHED}:
        group.small("recipe_kind", np.array([v.head.recipe_kind if v else 0 for v in found], dtype="u1"))
        group.small("recipe_seed", np.array([v.head.recipe_seed if v else 0 for v in found], dtype="<u8"))
        group.attributes("recipe_kind")["kinds"] = ",".join(RECIPE_KINDS)
    if encodings & {PATCHED, SAMPLED}:
        group.small("row_offsets", _offsets([v.rows[2] // 8 if v else 0 for v in found]))
        group.pool("rows", np.dtype("<i8"), [v.rows for v in values], reader)


def _offsets(counts: Sequence[int]) -> AnyArray:
    return np.concatenate(([0], np.cumsum(counts, dtype="<i8"))).astype("<i8")


class _Group:
    """An HDF5 group whose datasets carry a sha256 of their bytes and no times."""

    def __init__(self, file: h5py.File, name: str) -> None:
        self._group = file.create_group(name)

    def attributes(self, name: str) -> h5py.AttributeManager:
        return self._group[name].attrs

    def small(self, name: str, array: AnyArray) -> None:
        """An index or column, compressed where that pays."""
        dataset = self._create(name, array.shape, array.dtype, array.nbytes > _WORTH_COMPRESSING)
        dataset[...] = array
        dataset.attrs["sha256"] = hashlib.sha256(array.tobytes()).hexdigest()

    def pool(
        self, name: str, dtype: np.dtype[Any], segments: Sequence[Segment], reader: SpoolReader
    ) -> h5py.AttributeManager:
        """A pool from scratch segments; 32-bit and wider integers are compressed, floats and KV rows not."""
        total = sum(count for _, _, count in segments)
        integers = dtype.kind in "iu" and dtype.itemsize >= 4
        count = total // dtype.itemsize
        dataset = self._create(name, (count,), dtype, integers and total > _WORTH_COMPRESSING)
        digest, at = hashlib.sha256(), 0
        for block in reader.blocks(segments, _BLOCK):
            values = np.frombuffer(block, dtype)
            dataset[at : at + len(values)] = values
            digest.update(block)
            at += len(values)
        dataset.attrs["sha256"] = digest.hexdigest()
        return dataset.attrs

    def _create(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], compress: bool
    ) -> h5py.Dataset:
        filters: dict[str, Any] = {}
        if compress:
            chunk = max(1, _CHUNK_BYTES // max(1, dtype.itemsize * int(np.prod(shape[1:]))))
            filters = {
                "chunks": (min(shape[0], chunk), *shape[1:]),
                "compression": "gzip",
                "compression_opts": 1,
                "shuffle": dtype.kind != "S",
            }
        return self._group.create_dataset(name, shape, dtype, track_times=False, fill_time="never", **filters)
