"""Device memory as a space for runs: blocks, a stream of its own, event times, captured graphs."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable

import numpy as np

from harness.contract import OK, status_text
from harness.errors import HarnessError
from harness.memory.buffers import Bytes
from harness.memory.cuda_driver import NOT_SUPPORTED, Driver, DriverError
from harness.memory.space import CaptureFailed, CaptureUnavailable

SMALLEST_KEPT, LARGEST_KEPT = 1 << 18, 1 << 26  # bytes of an allocation that is used again
_STEP = 1 << 21  # what a device maps at a time: sizes above it are multiples


class Allocations:
    """Device memory that is used again: to map and unmap it costs more than a small case takes."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._free: dict[int, list[int]] = {}  # addresses by size

    def take(self, nbytes: int) -> tuple[int, int]:
        """Address and size of at least ``nbytes``; contents are anything."""
        size = nbytes if nbytes > LARGEST_KEPT else kept_size(nbytes)
        if free := self._free.get(size):
            self._driver.synchronize()  # what a failed call left under way may still write there
            return free.pop(), size
        try:
            return self._driver.allocate(size), size
        except DriverError as error:
            if error.fatal or not any(self._free.values()):
                raise
        self._release()
        return self._driver.allocate(size), size

    def give(self, address: int, size: int) -> None:
        """Keep an allocation for the next `take` of its size, or free a large one."""
        if size <= LARGEST_KEPT:
            self._free.setdefault(size, []).append(address)
        else:
            self._driver.free(address)

    def _release(self) -> None:
        """Free all that is kept: other sizes need the room."""
        while self._free:
            _, addresses = self._free.popitem()
            for address in addresses:
                self._driver.free(address)


def kept_size(nbytes: int) -> int:
    """Bytes of the allocation for ``nbytes``: few sizes, so that blocks are met again."""
    power = max(SMALLEST_KEPT, 1 << (nbytes - 1).bit_length())
    return power if power <= _STEP else -(-nbytes // _STEP) * _STEP


class DeviceBlock:
    """A piece of device memory, given back when it is dropped."""

    def __init__(self, allocations: Allocations, nbytes: int) -> None:
        self._allocations = allocations
        self.address, self._size = allocations.take(nbytes)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # after a device fault nothing can be freed any more
            self._allocations.give(self.address, self._size)


class PinnedBlock:
    """Page-locked host memory: a copy from it is asynchronous."""

    def __init__(self, driver: Driver, nbytes: int) -> None:
        self._driver, self.nbytes = driver, nbytes
        self.address = driver.allocate_pinned(nbytes)

    def fill(self, data: Bytes) -> None:
        """Put ``data`` at the start."""
        ctypes.memmove(self.address, data.ctypes.data, data.size)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._driver.free_pinned(self.address)


class DeviceGraph:
    """An executable graph on one stream."""

    def __init__(self, driver: Driver, executable: int, stream: int) -> None:
        self._driver, self._executable, self._stream = driver, executable, stream

    def launch(self) -> int:
        """Enqueue it once."""
        self._driver.launch_graph(self._executable, self._stream)
        return OK

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._driver.destroy_graph(self._executable)


class DeviceMemory:
    """The memory of the first visible GPU. EnvironmentProblem where there is none."""

    space = "device"
    traps = False  # no address sanitizer watches device memory

    def __init__(self) -> None:
        self._driver = Driver()
        self._allocations = Allocations(self._driver)
        self.facts = self._driver.facts()
        self._stream = self._driver.new_stream()
        self._pinned: PinnedBlock | None = None
        self._events = self._driver.new_event(), self._driver.new_event()
        self._arrival = self._driver.new_event()  # between a pause and its copy
        self.delay(0)

    @property
    def stream(self) -> int | None:
        """The stream of all runs."""
        return self._stream

    def allocate(self, nbytes: int) -> DeviceBlock:
        """A block at another address than all that are held."""
        return DeviceBlock(self._allocations, nbytes)

    def reserve(self, nbytes: int) -> DeviceBlock:
        """A fresh block: device memory that is not touched has to be there all the same."""
        try:
            return DeviceBlock(self._allocations, nbytes)
        except DriverError as error:
            if error.fatal:
                raise
            raise HarnessError(f"no {nbytes / 2**30:.1f} GiB of device memory for a spread pool") from error

    def delay(self, microseconds: int) -> None:
        """From now on inputs come so much later; nothing was missed, and none are on their way."""
        self._pause, self._awaited, self.missed = microseconds, False, False

    def upload_late(self, address: int, data: Bytes) -> None:
        """Enqueue a pause and then a copy from pinned memory; what is not on the stream comes before it."""
        source = self._staged(data)
        self._driver.pause(self._stream, self._pause)
        self._driver.record_event(self._arrival, self._stream)
        self._awaited = True
        self._driver.host_to_device_on(self._stream, address, source, data.size)

    def upload(self, address: int, data: Bytes) -> None:
        """Copy ``data`` to ``address``."""
        self._driver.host_to_device(address, data.ctypes.data, data.size)

    def upload_all(self, pieces: list[tuple[int, Bytes]]) -> None:
        """Copy every piece to its address.

        Each wait for the device lets other processes have it, which takes far longer than a copy.
        """
        if pieces:
            source = self._staged(np.concatenate([data for _, data in pieces]))
            for address, data in pieces:
                self._driver.host_to_device_on(self._stream, address, source, data.size)
                source += data.size
            self._driver.synchronize()

    def download(self, address: int, data: Bytes) -> None:
        """Fill ``data`` from ``address`` after every stream of the device has ended."""
        self._driver.device_to_host(data.ctypes.data, address, data.size)

    def _staged(self, data: Bytes) -> int:
        """The address of page-locked memory with ``data``."""
        self._driver.synchronize()  # a copy from there may be on its way
        if self._pinned is None or self._pinned.nbytes < data.size:
            self._pinned = PinnedBlock(self._driver, max(data.size, SMALLEST_KEPT))
        self._pinned.fill(data)
        return self._pinned.address

    def forbid(self, ranges: list[tuple[int, int]], forbidden: bool) -> None:
        """Nothing: there are no traps."""

    def timed(self, call: Callable[[], int]) -> tuple[int, float]:
        """Status and event time of one call, with everything on the device at an end."""
        start, end = self._events
        self._driver.record_event(start, self._stream)
        status = call()
        self._driver.record_event(end, self._stream)
        if self._awaited:
            self._awaited = False
            self.missed |= self._came_early()
        self._driver.synchronize()
        return status, self._driver.elapsed(start, end)

    def _came_early(self) -> bool:
        """True unless the default streams have ended what a call put there before its late inputs arrived.

        Other processes on the device, or a busy host, hold such work back for longer than any fixed pause.
        """
        while True:
            idle = self._driver.default_streams_idle()
            if self._driver.happened(self._arrival):
                return True
            if idle:
                return False

    def record(self, call: Callable[[], int]) -> DeviceGraph:
        """The graph of what ``call`` enqueues on the stream."""
        try:
            self._driver.begin_capture(self._stream)
        except DriverError as error:
            if error.code == NOT_SUPPORTED:
                raise CaptureUnavailable(str(error)) from error
            raise
        status = call()
        try:
            graph = self._driver.end_capture(self._stream)
        except DriverError as error:
            raise CaptureFailed(f"{status_text(status)}; {error}") from error
        if status != OK or graph == 0:
            raise CaptureFailed(f"the call returned {status_text(status)} while it was captured")
        try:
            return DeviceGraph(self._driver, self._driver.instantiate(graph), self._stream)
        except DriverError as error:
            raise CaptureFailed(str(error)) from error
