"""A scratch file that takes cases as they are made and gives their bytes back when a set is packed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.case import AnyArray, Case
from harness.errors import HarnessError
from harness.store.encode import Encoded, Role, case_hashes, encode_values, number_json

Segment = tuple[str, int, int]  # scratch file, offset, bytes


@dataclass(frozen=True)
class SpooledValue:
    """An `Encoded` value whose bytes lie in a scratch file."""

    role: Role
    name: str
    dtype: str
    head: Encoded  # without its arrays
    data: Segment
    rows: Segment


@dataclass(frozen=True)
class SpooledCase:
    """One case: its columns, and where its values lie."""

    kernel: str
    seed: int
    text: dict[str, str]
    values: tuple[SpooledValue, ...]


class Spool:
    """A scratch file that grows by the bytes of the cases it is given."""

    def __init__(self, path: Path) -> None:
        self._path, self._stream = str(path), path.open("wb")

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def add(self, case: Case) -> SpooledCase:
        """Write the values of ``case``, flushed to the file before this returns."""
        values = list(encode_values(case))
        payload, integrity = case_hashes(case, values)
        spooled = tuple(self._value(role, name, value) for role, name, value in values)
        self._stream.flush()
        text = {
            "case_id": case.case_id,
            "family": case.family,
            "flags": json.dumps(case.flags),
            "validity": case.validity,
            "policy": case.policy,
            "scalars": number_json(case.scalars),
            "notes": number_json(case.notes),
            "payload_sha256": payload,
            "integrity_sha256": integrity,
        }
        return SpooledCase(case.kernel, case.seed, text, spooled)

    def _value(self, role: Role, name: str, value: Encoded) -> SpooledValue:
        head = Encoded(value.encoding, value.logical_dtype, value.shape, np.empty(0, value.data.dtype),
                       recipe_kind=value.recipe_kind, recipe_seed=value.recipe_seed)  # fmt: skip
        data, rows = self._bytes(value.data), self._bytes(value.rows)
        return SpooledValue(role, name, value.data.dtype.str, head, data, rows)

    def _bytes(self, array: AnyArray) -> Segment:
        at = self._stream.tell()
        self._stream.write(array.data if array.size else b"")
        return self._path, at, array.nbytes


class SpoolReader:
    """Reads segments of scratch files, each file opened once."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def __enter__(self) -> SpoolReader:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)

    def blocks(self, segments: Sequence[Segment], size: int) -> Iterator[bytearray]:
        """The bytes of all segments in order, in blocks of exactly ``size`` (the last may be shorter)."""
        block = bytearray()
        for path, offset, count in segments:
            if path not in self._open:
                self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            end = offset + count
            while offset < end:
                piece = os.pread(self._open[path], min(end - offset, size - len(block)), offset)
                if not piece:
                    raise HarnessError(f"{path}: the scratch file ends early; is the disk full?")
                block += piece
                offset += len(piece)
                if len(block) == size:
                    yield block
                    block = bytearray()
        if block:
            yield block
