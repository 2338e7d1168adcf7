"""Guarded, poisoned memory: one block per run, laid out [guard][pad][payload][guard] per array.

Every byte of the block that is no payload is guard, so a write anywhere between the arrays is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray, hash_words

ALIGN = 256
GUARD = 4096
POISONS = (0x5A, 0xA5)  # fill bytes of outputs and workspace; as int, float or bf16 finite and implausible

Bytes = npt.NDArray[np.uint8]
_PATTERN: Bytes = hash_words(0xDD7EE, 4096).astype("<u8").view(np.uint8)
_INTACT = _PATTERN.tobytes()  # every guard of an arena is a beginning of it
_SMALL = 1 << 18  # bytes of a block of which an image is kept, to be copied at once


class Block(Protocol):
    """Memory of a target's space; freed when it is dropped."""

    @property
    def address(self) -> int:
        """Where it starts."""


class Memory(Protocol):
    """A memory space: the host's, or a device's."""

    @property
    def space(self) -> str:
        """``host`` or ``device``."""

    def allocate(self, nbytes: int) -> Block:
        """A block of at least ``nbytes``."""

    def reserve(self, nbytes: int) -> Block:
        """A block of which only a small part will be touched. HarnessError where there is no room."""

    def upload(self, address: int, data: Bytes) -> None:
        """Copy ``data`` to ``address``; complete when it returns."""

    def upload_all(self, pieces: list[tuple[int, Bytes]]) -> None:
        """Copy every piece to its address, waiting once for all; complete when it returns."""

    def download(self, address: int, data: Bytes) -> None:
        """Fill ``data`` from ``address`` after all work of the space has ended."""

    @property
    def traps(self) -> bool:
        """True where an address sanitizer is loaded, so that `forbid` does something."""

    def forbid(self, ranges: list[tuple[int, int]], forbidden: bool) -> None:
        """Make (address, length) ranges trap under an address sanitizer, or let them go again."""


@runtime_checkable
class Delays(Protocol):
    """A space whose calls follow each other on a stream, so that inputs can come late.

    ``missed``: since `delay`, inputs of a timed call came before the call had returned, or before what it put
    on the default streams had ended.
    """

    missed: bool

    def delay(self, microseconds: int) -> None:
        """From now on inputs come so much later."""

    def upload_late(self, address: int, data: Bytes) -> None:
        """Enqueue a pause and then the copy on the stream of the calls; returns at once."""


def poison_of(round_index: int) -> int:
    """The fill byte of a run."""
    return POISONS[round_index % len(POISONS)]


def fence(nbytes: int) -> Bytes:
    """Guard bytes, of any length."""
    return np.resize(_PATTERN, nbytes)


def _same(one: Bytes, other: Bytes) -> bool:
    """Equal bytes; for short pieces a copy costs less than an elementwise comparison."""
    if one.size < 1 << 16:
        return one.tobytes().startswith(other.data)
    return np.array_equal(one, other)


@dataclass(frozen=True)
class _Layout:
    """Where payloads and guards lie in a block; a guard comes with the name of the array before it."""

    spans: Mapping[str, slice]
    gaps: tuple[tuple[str, slice], ...]
    nbytes: int
    poisoned: tuple[str, ...]
    poison: int

    def made(self) -> Bytes:
        """A new image of the block, with guards and poison in place."""
        image: Bytes = np.empty(self.nbytes, np.uint8)
        for _, gap in self.gaps:
            image[gap] = _PATTERN[: gap.stop - gap.start]
        for name in self.poisoned:
            image[self.spans[name]] = self.poison
        return image

    @cached_property
    def template(self) -> Bytes:
        """One of them, to be copied."""
        return self.made()


@lru_cache(maxsize=64)
def _layout(
    sizes: tuple[tuple[str, int], ...], shift: int, poisoned: tuple[str, ...], poison: int
) -> _Layout:
    """The runs of a case, and cases of equal shapes, share it."""
    if not any(nbytes for _, nbytes in sizes):  # nobody gets an address: there is nothing to guard
        return _Layout({name: slice(0, 0) for name, _ in sizes}, (), 0, (), poison)
    spans: dict[str, slice] = {}
    gaps: list[tuple[str, slice]] = []
    cursor, start, before = shift, 0, ""
    for name, nbytes in sizes:
        at = -(-(cursor + GUARD) // ALIGN) * ALIGN
        gaps.append((before, slice(start, at)))
        spans[name] = slice(at, at + nbytes)
        before, start = name, at + nbytes
        cursor = start + GUARD
    gaps.append((before, slice(start, cursor)))
    return _Layout(spans, tuple(gaps), cursor, poisoned, poison)


class Arena:
    """The arrays of one run. Stage with `view`, then `seal`, call the target between, `fetch`, inspect.

    Those named in ``poisoned`` hold the fill byte of the run.
    """

    def __init__(
        self, memory: Memory, sizes: Mapping[str, int], round_index: int, poisoned: tuple[str, ...] = ()
    ) -> None:
        key = tuple(sizes.items())
        layout = _layout(key, ALIGN * (round_index % 7), poisoned, poison_of(round_index))
        self._memory, self._spans, self._gaps = memory, layout.spans, layout.gaps
        self._block = memory.allocate(layout.nbytes + ALIGN) if layout.nbytes else None
        self._base = -(-self._block.address // ALIGN) * ALIGN if self._block else 0
        self._image: Bytes = layout.template.copy() if layout.nbytes <= _SMALL else layout.made()
        self._after: Bytes = self._image

    def has(self, name: str) -> bool:
        """True where the block holds an array of this name."""
        return name in self._spans

    def address(self, name: str) -> int:
        """Where the payload stands; 0 (null) where it is empty or there is none."""
        span = self._spans.get(name)
        return self._base + span.start if span is not None and span.stop > span.start else 0

    def view(self, name: str, dtype: npt.DTypeLike = np.uint8, shape: tuple[int, ...] = (-1,)) -> AnyArray:
        """The staged payload, writable until `seal`."""
        staged: AnyArray = self._image[self._spans[name]].view(dtype).reshape(shape)
        return staged

    def fill(self, name: str, byte: int) -> None:
        """Stage a payload of one byte value."""
        self._image[self._spans[name]] = byte

    def seal(self) -> None:
        """Copy everything staged, guards included, into the target's memory."""
        if self._block is not None:
            self._memory.upload(self._base, self._image)

    def poke(self, pieces: Iterable[tuple[str, int, AnyArray]]) -> None:
        """Write pieces (name, byte offset, data) into sealed payloads, which keep all other bytes."""
        uploads: list[tuple[int, Bytes]] = []
        for name, offset, data in pieces:
            raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            start = self._spans[name].start + offset
            self._image[start : start + raw.size] = raw
            uploads.append((self._base + start, raw))
        self._memory.upload_all(uploads)

    def seal_behind(self, stream: Delays) -> None:
        """As `seal`, but by the stream of the calls, behind work that takes a while."""
        stream.upload_late(self._base, self._image)

    def forbid(self, forbidden: bool) -> None:
        """While the target runs: an address sanitizer, where one is loaded, traps on the guards."""
        if self._memory.traps:
            ranges = [(self._base + gap.start, gap.stop - gap.start) for _, gap in self._gaps]
            self._memory.forbid(ranges, forbidden)

    def fetch(self) -> None:
        """Bring the block back."""
        if self._block is not None:
            self._after = np.empty_like(self._image)
            self._memory.download(self._base, self._after)

    def read(self, name: str, dtype: Any, shape: tuple[int, ...]) -> AnyArray:
        """The payload as the target left it (a view of what was fetched)."""
        left: AnyArray = self._after[self._spans[name]].view(dtype).reshape(shape)
        return left

    def changed(self, name: str) -> bool:
        """True where the payload's bytes are not those staged."""
        span = self._spans[name]
        return not _same(self._after[span], self._image[span])

    def guard_hits(self) -> tuple[str, ...]:
        """One line per damaged guard, naming the nearest array."""
        after = self._after.data
        bad = [(before, gap) for before, gap in self._gaps if not _INTACT.startswith(after[gap])]
        return tuple(self._describe(before, gap) for before, gap in bad)

    def _describe(self, before: str, gap: slice) -> str:
        bad = np.flatnonzero(self._after[gap] != self._image[gap])
        first, last, length = int(bad[0]), int(bad[-1]), gap.stop - gap.start
        after = next((n for n, span in self._spans.items() if span.start == gap.stop), "")
        if before and (not after or first < length - 1 - last):
            return f"{before}: {bad.size} bytes changed from {first} bytes past its end"
        return f"{after}: {bad.size} bytes changed up to {length - last} bytes before its start"
