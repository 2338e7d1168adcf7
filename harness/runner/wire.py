"""Frames between supervisor and worker: a JSON header and raw array bytes on a file descriptor.

No pickle: what a worker sends can be wrong, but it cannot run anything here. Layout: magic, header length
(u32), payload length (u64), all little-endian, then the header, then the payload. Spaces at the end of the
header align the payload. An array stands in the header as ``[dtype, shape, at]`` with a byte offset into the
payload.
"""

from __future__ import annotations

import json
import math
import os
import select
import struct
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from harness.case import AnyArray, Patched, Recipe, Value
from harness.observation import Job, Observation

_MAGIC = b"ddt1"
_HEAD = struct.Struct("<4sIQ")
_MAX_HEADER, _MAX_PAYLOAD = 2**26, 2**36
_SMALL = 1 << 16  # bytes of a payload that is sent together with its header: what a pipe takes at once
_ALIGN = 16
_RECIPES = ("bytes", "unit_bf16")
_to_json = json.JSONEncoder(separators=(",", ":")).encode

Message = dict[str, Any]
Entry = list[Any]  # of an array
Frame = list[bytes | memoryview]  # what is written, in order


class WireError(Exception):
    """A frame that is no frame, or an end in the middle of one."""


class EndOfStream(Exception):
    """The other side closed between two frames."""


def framed(message: Mapping[str, Any], payload: Sequence[AnyArray] = ()) -> Frame:
    """A message and the arrays that it speaks of, ready to be written."""
    header = _to_json(message).encode()
    header += b" " * (-len(header) % _ALIGN)
    size = sum([p.nbytes for p in payload])
    head = _HEAD.pack(_MAGIC, len(header), size) + header
    if size <= _SMALL:  # in one piece: every write of its own would wake the other side
        return [b"".join([head, *[p.tobytes() for p in payload]])]
    return [head, *(p.reshape(-1).view(np.uint8).data for p in payload if p.nbytes)]


def send(fd: int, frame: Frame, deadline: float | None = None) -> None:
    """Write one frame. OSError where the other side is gone.

    With a ``deadline``, by `time.monotonic`, ``fd`` is not blocking; TimeoutError where it is not read by
    then.
    """
    for part in frame:
        _write(fd, part, deadline)


def offer(fd: int, frame: Frame) -> Frame:
    """Write as much of a frame as ``fd``, which is not blocking, takes at once; the rest."""
    for index, part in enumerate(frame):
        left = memoryview(part)
        try:
            while left:
                left = left[os.write(fd, left) :]
        except BlockingIOError:
            return [left, *frame[index + 1 :]]
    return []


def receive(fd: int, deadline: float | None = None) -> tuple[Message, memoryview]:
    """Read one frame: header and payload.

    With a ``deadline``, by `time.monotonic`, ``fd`` is not blocking; TimeoutError where it is not whole by
    then.
    """
    head = _read(fd, _HEAD.size, deadline, start=True)
    magic, header_length, payload_length = _HEAD.unpack(head)
    if magic != _MAGIC or header_length > _MAX_HEADER or payload_length > _MAX_PAYLOAD:
        raise WireError("not a frame of the harness")
    body = _read(fd, header_length + payload_length, deadline)
    try:
        message = json.loads(body[:header_length].decode())
    except ValueError as error:
        raise WireError(f"a frame header that is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise WireError("a frame header that is no object")
    return message, memoryview(body)[header_length:]


class Packer:
    """Collects arrays for a payload."""

    def __init__(self) -> None:
        self.parts: list[AnyArray] = []
        self._size = 0

    def array(self, value: AnyArray) -> Entry:
        """The header entry of an array."""
        flat = value if value.flags.c_contiguous else np.ascontiguousarray(value)
        at = self._size
        self.parts.append(flat)
        self._size += flat.nbytes
        return [flat.dtype.str, value.shape, at]

    def value(self, value: Value) -> Entry | Message:
        """The header entry of an array, a recipe or a patched recipe."""
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, Recipe):
            return {"recipe": [value.kind, value.seed, value.shape]}
        base = value.base
        return {
            "recipe": [base.kind, base.seed, base.shape],
            "rows": self.array(value.rows),
            "values": self.array(value.values),
        }

    def arrays(self, values: Mapping[str, AnyArray]) -> dict[str, Entry]:
        """Header entries by name."""
        return {name: self.array(value) for name, value in values.items()}


_dtype = lru_cache(maxsize=64)(np.dtype)  # by name


def unpack_array(entry: Entry, payload: memoryview) -> AnyArray:
    """An array of a payload; a view of it."""
    name, shape, start = entry
    dtype = _dtype(name)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise WireError(f"an array of {dtype}{shape}")
    nbytes = math.prod(shape) * dtype.itemsize
    if start < 0 or start + nbytes > len(payload):
        raise WireError("an array outside of its frame")
    return np.ndarray(shape, dtype, payload, start) if nbytes else np.empty(shape, dtype)


def unpack_value(entry: Entry | Message, payload: memoryview) -> Value:
    """An array, a recipe or a patched recipe."""
    if isinstance(entry, list):
        return unpack_array(entry, payload)
    kind, seed, shape = entry["recipe"]
    if kind not in _RECIPES:
        raise WireError(f"a recipe of kind {kind!r}")
    base = Recipe(kind, int(seed), tuple(int(n) for n in shape))
    if "rows" not in entry:
        return base
    return Patched(base, unpack_array(entry["rows"], payload), unpack_array(entry["values"], payload))


def job_frame(job: Job, repeat: int) -> Frame:
    """A job for a worker."""
    packer = Packer()
    return framed(job_message(job, repeat, packer), packer.parts)


def job_message(job: Job, repeat: int, packer: Packer) -> Message:
    """What a job comes to, its arrays in ``packer``."""
    inputs = {name: packer.value(value) for name, value in job.inputs.items()}
    scalars = {name: value if isinstance(value, int) else float(value) for name, value in job.scalars.items()}
    return {"kernel": job.kernel, "inputs": inputs, "scalars": scalars, "repeat": repeat}


def read_job(message: Message, payload: memoryview) -> tuple[Job, int]:
    """A job and how often it is to run."""
    inputs = {name: unpack_value(entry, payload) for name, entry in message["inputs"].items()}
    return Job(message["kernel"], inputs, message["scalars"]), int(message["repeat"])


_PLAIN = ("status", "message", "malformed", "guard_hits", "mutated", "seconds", "absent",
          "lse_base2", "poisoned", "notes")  # fmt: skip


def send_observation(fd: int, seen: Observation) -> None:
    """What a worker saw."""
    packer = Packer()
    rounds = [packer.arrays(outputs) for outputs in seen.rounds]
    message = {"rounds": rounds, **{name: getattr(seen, name) for name in _PLAIN}}
    send(fd, framed(message, packer.parts))


def read_observation(message: Message, payload: memoryview) -> Observation:
    """What a worker saw; WireError where it is nothing of the kind."""
    try:
        plain = {name: message[name] for name in _PLAIN}
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
        rounds = tuple(
            {name: unpack_array(entry, payload) for name, entry in outputs.items()}
            for outputs in message["rounds"]
        )
        return Observation(rounds=rounds, **plain)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"an incomplete observation: {error!r}") from error


def _write(fd: int, data: bytes | memoryview, deadline: float | None) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            _wait([], [fd], deadline)


def _read(fd: int, length: int, deadline: float | None, *, start: bool = False) -> bytearray:
    data = bytearray(length)
    view, done = memoryview(data), 0
    while done < length:
        try:
            count = os.readv(fd, [view[done:]])
        except BlockingIOError:
            _wait([fd], [], deadline)
            continue
        if count == 0:
            if start and done == 0:
                raise EndOfStream
            raise WireError("the stream ends within a frame")
        done += count
    return data


def _wait(reading: list[int], writing: list[int], deadline: float | None) -> None:
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if not any(select.select(reading, writing, [], left)):
        raise TimeoutError("a frame got stuck")
