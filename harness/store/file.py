"""One file of a set, opened for reading: pinned, proved whole, then read by offset.

The file descriptor pins the bytes that were hashed: a set that is replaced while it is open is read to its
end in the old state. Reads go through ``pread``, so a forked child may use an open file like its parent.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from harness.case import AnyArray
from harness.errors import FixtureError
from harness.store.manifest import FileEntry, damaged

_BLOCK = 4 << 20
_MAX_RATIO = 1100  # gzip cannot expand a byte to more
_DAMAGE = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, IndexError, OverflowError,
           EOFError, MemoryError)  # fmt: skip


class _Pread(io.RawIOBase):
    """A seekable view of a descriptor with a position of its own."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size, self._at = descriptor, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count


class PinnedFile:
    """``path`` of the set in ``folder``, checked against its manifest entry when it is opened.

    Every error is a FixtureError that names the file, the dataset where it is known, and the remedy.
    """

    def __init__(self, path: Path, folder: Path, suite: str, entry: FileEntry) -> None:
        self.path, self._folder, self._suite = path, folder, suite
        with self.guard():
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self.close = weakref.finalize(self, os.close, self._descriptor)
            self._size = os.fstat(self._descriptor).st_size
            digest, at = hashlib.sha256(), 0
            while block := os.pread(self._descriptor, _BLOCK, at):
                digest.update(block)
                at += len(block)
        if self._size != entry.bytes:
            raise self.error(f"has {self._size} bytes where the manifest says {entry.bytes}")
        if digest.hexdigest() != entry.file_sha256:
            raise self.error("does not match the manifest's hash", self._first_damaged())

    def error(self, what: str, dataset: str | None = None) -> FixtureError:
        """The FixtureError of this file."""
        place = Path(f"{self.path}:{dataset.lstrip('/')}") if dataset else self.path
        return damaged(place, what, self._folder, self._suite)

    @contextmanager
    def guard(self, dataset: str | None = None) -> Iterator[None]:
        """Turns whatever h5py, NumPy or the system raise about the file into a FixtureError."""
        try:
            yield
        except FixtureError:
            raise
        except _DAMAGE as error:
            text = " ".join(str(error).split())
            raise self.error(f"cannot be read ({type(error).__name__}: {text})", dataset) from error

    @contextmanager
    def hdf5(self) -> Iterator[h5py.File]:
        """The pinned bytes as an HDF5 file, for as long as the block lasts."""
        with self.guard(), h5py.File(_Pread(self._descriptor, self._size), "r") as file:
            yield file

    def whole(self, dataset: h5py.Dataset) -> AnyArray:
        """All of one dataset; one that claims more than the file can hold is refused before it is read."""
        with self.guard():
            shape, dtype = dataset.shape, dataset.dtype
            claimed = math.prod(shape) * dtype.itemsize
            if claimed > self._size * _MAX_RATIO:
                raise self.error(f"claims {claimed} bytes in a file of {self._size}", dataset.name)
            array = np.empty(shape, dtype)
            if claimed:
                dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, array)
            return array

    def read(self, offset: int, dtype: np.dtype[np.generic], count: int, dataset: str) -> AnyArray:
        """``count`` items at byte ``offset``, in an array that the caller owns."""
        array = np.empty(count, dtype)
        view, done = array.view(np.uint8).data, 0
        while done < len(view):
            with self.guard(dataset):
                got = os.preadv(self._descriptor, [view[done:]], offset + done)
            if not got:
                raise self.error("ends early", dataset)
            done += got
        return array

    def _first_damaged(self) -> str | None:
        """The first dataset whose bytes miss the hash written beside it, if the file still opens."""
        found: list[str] = []

        def check(name: str, item: object) -> bool | None:
            if isinstance(item, h5py.Dataset):
                try:
                    intact = hashlib.sha256(self.whole(item).tobytes()).hexdigest() == item.attrs["sha256"]
                except FixtureError:
                    intact = False
                if not intact:
                    found.append(name)
                    return True
            return None

        try:
            with self.hdf5() as file:
                file.visititems(check)
        except FixtureError:
            return None
        return found[0] if found else None
