"""Cases to one packed HDF5 file per kernel.

`harness.store.spool` has taken the bytes of the cases as they were made (in any process); `pack_file` copies
them, in the order of the batches, into one pool per array. Memory holds one block. The result depends on the
cases alone.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from harness.case import AnyArray
from harness.contract import CONTRACT_VERSION
from harness.errors import HarnessError
from harness.store.encode import ABSENT, PATCHED, RECIPE, RECIPE_KINDS, SAMPLED, Head, Slot
from harness.store.manifest import SCHEMA, SCHEMA_VERSION, FileEntry, SetInfo, version_text
from harness.store.spool import Segment, SpooledBatch, SpoolReader

TEXT_COLUMNS = ("case_id", "family", "flags", "validity", "policy", "scalars", "notes",
                "payload_sha256", "integrity_sha256")  # fmt: skip
_BLOCK = 1 << 20
_CHUNK_BYTES = 1 << 18
_WORTH_COMPRESSING = 1 << 10
_TRIAL_BYTES = 1 << 15


def pack_file(path: Path, kernel: str, batches: Sequence[SpooledBatch], info: SetInfo) -> FileEntry:
    """Write the cases to ``path``, forced to disk. HarnessError where two of them cannot share a pool."""
    text = {name: [text for batch in batches for text in batch.text[name]] for name in TEXT_COLUMNS}
    seeds = [seed for batch in batches for seed in batch.seeds]
    content = content_sha256(kernel, text, seeds)
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs.update(_root_attributes(kernel, len(seeds), info, content))
        columns = _Group(file, "cases")
        for name in TEXT_COLUMNS:
            columns.small(name, np.array([item.encode() for item in text[name]]))
        columns.small("seed", np.array(seeds, dtype="<i8"))
        with SpoolReader() as reader:
            for slot in _slots(kernel, batches):
                _write_array(_Group(file, f"{slot.role}/{slot.name}"), reader, slot, batches)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return FileEntry(len(seeds), path.stat().st_size, digest, content)


def content_sha256(kernel: str, text: Mapping[str, Sequence[str]], seeds: Sequence[int]) -> str:
    """The reproducible hash of a file, from its columns."""
    rows = zip(text["case_id"], text["family"], seeds, text["payload_sha256"], strict=True)
    lines = [f"{case_id} {family} {seed} {payload}\n" for case_id, family, seed, payload in rows]
    return hashlib.sha256(f"{kernel}\n{''.join(lines)}".encode()).hexdigest()


def _slots(kernel: str, batches: Sequence[SpooledBatch]) -> list[Slot]:
    """The slots of all arrays, by role and name. HarnessError where an array has several."""
    found: dict[tuple[str, str], set[Slot]] = {}
    for batch in batches:
        for slot in batch.arrays:
            found.setdefault((slot.role, slot.name), set()).add(slot)
    for (role, name), slots in found.items():
        if len(slots) > 1:
            kinds = sorted((slot.dtype.str, slot.logical_dtype, slot.rank) for slot in slots)
            raise HarnessError(f"{kernel}: {role} {name} has mixed dtypes or ranks {kinds}")
    return [found[key].pop() for key in sorted(found)]


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


def _write_array(group: _Group, reader: SpoolReader, slot: Slot, batches: Sequence[SpooledBatch]) -> None:
    absent = Head(slot, ABSENT, (0,) * slot.rank)
    arrays = [(batch.arrays.get(slot), len(batch.seeds)) for batch in batches]
    heads = [head for array, count in arrays for head in (array.heads if array else [absent] * count)]
    encodings = [head.encoding for head in heads]
    group.small("encoding", np.array(encodings, dtype="u1"))
    group.small("shapes", np.array([head.shape for head in heads], dtype="<i8").reshape(-1, slot.rank))
    group.small("offsets", _offsets([head.items for head in heads]))
    values = [array.data for array, _ in arrays if array]
    group.pool("values", slot.dtype, values, reader)["logical_dtype"] = slot.logical_dtype
    if {RECIPE, PATCHED}.intersection(encodings):
        group.small("recipe_kind", np.array([head.recipe_kind for head in heads], dtype="u1"))
        group.small("recipe_seed", np.array([head.recipe_seed for head in heads], dtype="<u8"))
        group.attributes("recipe_kind")["kinds"] = ",".join(RECIPE_KINDS)
    if {PATCHED, SAMPLED}.intersection(encodings):
        group.small("row_offsets", _offsets([head.rows for head in heads]))
        group.pool("rows", np.dtype("<i8"), [array.rows for array, _ in arrays if array], reader)


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
        blocks = reader.blocks(segments, _BLOCK)
        first = next(blocks, bytearray())
        compress = dtype.kind in "iu" and dtype.itemsize >= 4 and total > _WORTH_COMPRESSING
        if total > _CHUNK_BYTES:
            compress = compress and _shrinks(first[:_TRIAL_BYTES], dtype)
        dataset = self._create(name, (total // dtype.itemsize,), dtype, compress)
        digest, at = hashlib.sha256(), 0
        for block in chain([first], blocks):
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


def _shrinks(sample: bytearray, dtype: np.dtype[Any]) -> bool:
    """Whether a pool that begins so is worth compressing; random token ids take the longest, for little."""
    planes = np.frombuffer(sample, "u1").reshape(-1, dtype.itemsize).T.tobytes()
    return len(zlib.compress(planes, 1)) <= len(sample) // 2
