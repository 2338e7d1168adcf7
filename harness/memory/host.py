"""Host memory: NumPy blocks, the wall clock, and the guards of an address sanitizer where one is loaded."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.errors import HarnessError
from harness.memory.buffers import Bytes
from harness.memory.timing import host_seconds

_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux: pages that nobody touches need no memory


@dataclass(frozen=True)
class HostBlock:
    """A block that lives as long as its array."""

    address: int
    array: Bytes


class HostMemory:
    """The memory of this process."""

    space = "host"
    stream: int | None = None

    def __init__(self) -> None:
        process = ctypes.CDLL(None)
        self._forbid, self._allow = (
            getattr(process, f"__asan_{verb}_memory_region", None) for verb in ("poison", "unpoison")
        )
        for function in (self._forbid, self._allow):
            if function is not None:
                function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t], None

    def allocate(self, nbytes: int) -> HostBlock:
        """A fresh block."""
        array: Bytes = np.empty(nbytes, np.uint8)
        return HostBlock(array.ctypes.data, array)

    def reserve(self, nbytes: int) -> HostBlock:
        """Address space; what is touched of it reads as zero and costs memory page by page."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        try:
            array: Bytes = np.frombuffer(mmap.mmap(-1, nbytes, flags), np.uint8)
        except OSError as error:
            raise HarnessError(f"no {nbytes / 2**30:.1f} GiB of address space for a spread pool") from error
        return HostBlock(array.ctypes.data, array)

    def upload(self, address: int, data: Bytes) -> None:
        """Copy ``data`` to ``address``."""
        ctypes.memmove(address, data.ctypes.data, data.size)

    def upload_all(self, pieces: list[tuple[int, Bytes]]) -> None:
        """Copy every piece to its address."""
        for address, data in pieces:
            self.upload(address, data)

    def download(self, address: int, data: Bytes) -> None:
        """Fill ``data`` from ``address``."""
        ctypes.memmove(data.ctypes.data, address, data.size)

    @property
    def traps(self) -> bool:
        """True where an address sanitizer is loaded."""
        return self._forbid is not None

    def forbid(self, ranges: list[tuple[int, int]], forbidden: bool) -> None:
        """Under an address sanitizer: trap on these ranges, or let them go again."""
        function = self._forbid if forbidden else self._allow
        if function is not None:
            for address, nbytes in ranges:
                function(address, nbytes)

    def timed(self, call: Callable[[], int]) -> tuple[int, float]:
        """Status and seconds of one call."""
        return host_seconds(call)
