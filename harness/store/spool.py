"""A scratch file that takes cases as they are made and gives their bytes back when a set is packed.

Cases travel in batches of one kernel: in a batch, the values of one array lie side by side, and one record
tells where. (A step per case and array costs more than the bytes of a small case.)
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.case import AnyArray, Case
from harness.errors import HarnessError
from harness.store.encode import (
    ABSENT,
    Encoded,
    Head,
    Slot,
    case_hashes,
    encode_values,
    flags_json,
    number_json,
)

Segment = tuple[str, int, int]  # scratch file, offset, bytes
_BATCH_BYTES = 1 << 20  # a batch that holds as much takes no further case
_BUFFER = 1 << 18


@dataclass(frozen=True)
class SpooledArray:
    """One array of a batch: a head for every case, and where the bytes of all lie, in that order."""

    heads: list[Head]
    data: Segment
    rows: Segment


@dataclass(frozen=True)
class SpooledBatch:
    """Consecutive cases of one kernel: columns with an entry for each, and their arrays."""

    kernel: str
    seeds: list[int]
    text: dict[str, list[str]]
    arrays: dict[Slot, SpooledArray]


class Spool:
    """A scratch file that grows by the bytes of the cases it is given."""

    def __init__(self, path: Path) -> None:
        self._path, self._stream, self._end = str(path), path.open("wb", _BUFFER), 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def add(self, kernel: str, cases: Iterable[Case]) -> list[SpooledBatch]:
        """Write the values of ``cases``, all of ``kernel``, flushed to the file before this returns.

        Memory holds one batch: small cases up to a megabyte, or a large one.
        """
        batches, batch = [], _OpenBatch()
        for case in cases:
            batch.add(case)
            if batch.bytes >= _BATCH_BYTES:
                batches.append(self._write(kernel, batch))
                batch = _OpenBatch()
        if batch.seeds:
            batches.append(self._write(kernel, batch))
        self._stream.flush()
        return batches

    def _write(self, kernel: str, batch: _OpenBatch) -> SpooledBatch:
        arrays = {}
        for slot, held in batch.arrays.items():
            absent = Head(slot, ABSENT, (0,) * slot.rank)
            heads = [held.heads.get(i, absent) for i in range(len(batch.seeds))]
            arrays[slot] = SpooledArray(heads, self._bytes(held.data), self._bytes(held.rows))
        return SpooledBatch(kernel, batch.seeds, dict(batch.text), arrays)

    def _bytes(self, arrays: list[AnyArray]) -> Segment:
        at = self._end
        self._stream.writelines(arrays)  # type: ignore[arg-type]  # whatever lends its bytes
        self._end += sum([array.nbytes for array in arrays])
        return self._path, at, self._end - at


@dataclass(frozen=True)
class _Held:
    """What an open batch holds of one array: heads by the position of the case, and bytes to be written."""

    heads: dict[int, Head] = field(default_factory=dict)
    data: list[AnyArray] = field(default_factory=list)
    rows: list[AnyArray] = field(default_factory=list)


class _OpenBatch:
    """A batch that still takes cases."""

    def __init__(self) -> None:
        self.bytes = 0
        self.seeds: list[int] = []
        self.text: defaultdict[str, list[str]] = defaultdict(list)
        self.arrays: defaultdict[Slot, _Held] = defaultdict(_Held)

    def add(self, case: Case) -> None:
        """Take one more case."""
        values = list(encode_values(case))
        for head, data, rows in values:
            held = self.arrays[head.slot]
            held.heads[len(self.seeds)] = head
            held.data.append(data)
            self.bytes += data.nbytes
            if head.rows:
                held.rows.append(rows)
                self.bytes += rows.nbytes
        for name, text in _text(case, values).items():
            self.text[name].append(text)
        self.seeds.append(case.seed)


def _text(case: Case, values: list[Encoded]) -> dict[str, str]:
    payload, integrity = case_hashes(case, values)
    return {
        "case_id": case.case_id,
        "family": case.family,
        "flags": flags_json(case.flags),
        "validity": case.validity,
        "policy": case.policy,
        "scalars": number_json(case.scalars),
        "notes": number_json(case.notes),
        "payload_sha256": payload,
        "integrity_sha256": integrity,
    }


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
