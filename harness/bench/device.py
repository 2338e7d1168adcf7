"""What timing needs of a device beyond memory and events: its L2, a flush of it, its copy bandwidth."""

from __future__ import annotations

import ctypes

from harness.errors import HarnessError
from harness.memory.cuda_driver import Driver, DriverError
from harness.memory.space import Space

L2_ROUNDS = 5  # bytes touched between two uses of a buffer, in sizes of the L2
_L2_ATTRIBUTE = 38
_COPY_BYTES = 1 << 30
_COPIES = 10
HOLD_MICROSECONDS = 200  # longer than the host needs to enqueue two events and a graph


class DeviceTools:
    """The first visible device, through the primary context that the target uses too."""

    def __init__(self, space: Space) -> None:
        self._space, self._driver = space, Driver()
        device, value = ctypes.c_int(0), ctypes.c_int(0)
        self._driver.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._driver.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(_L2_ATTRIBUTE), device)
        self.l2_bytes = value.value
        bus = ctypes.create_string_buffer(32)
        self._driver.call("cuDeviceGetPCIBusId", bus, ctypes.c_int(len(bus)), device)
        self.bus_id = bus.value.decode("ascii", "replace")
        self._holds = True
        self._scratch = space.allocate(L2_ROUNDS * self.l2_bytes)

    def free_bytes(self) -> int:
        """Device memory that nobody holds."""
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        self._driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def flush(self) -> None:
        """Enqueue a write of `L2_ROUNDS` times the L2: nothing that was there before is left."""
        self._driver.call(
            "cuMemsetD8Async", ctypes.c_uint64(self._scratch.address), ctypes.c_ubyte(0),
            ctypes.c_size_t(L2_ROUNDS * self.l2_bytes), ctypes.c_void_p(self._space.stream),
        )  # fmt: skip

    def hold(self) -> None:
        """Enqueue a pause, so that all that comes next is queued before any of it begins.

        Without it the first event happens while the host still launches the graph, and that gap is timed. A
        driver without host functions is timed with the gap.
        """
        if not self._holds:
            return
        try:
            self._driver.pause(self._space.stream or 0, HOLD_MICROSECONDS)
        except DriverError as error:
            if error.fatal:
                raise
            self._holds = False

    def copy_bandwidth(self) -> float:
        """Bytes a second, read and written, of the fastest of several copies within the device."""
        nbytes = min(_COPY_BYTES, self.free_bytes() // 4)
        source, target = self._space.allocate(nbytes), self._space.allocate(nbytes)

        def copy() -> int:
            self._driver.call(
                "cuMemcpyDtoDAsync_v2", ctypes.c_uint64(target.address), ctypes.c_uint64(source.address),
                ctypes.c_size_t(nbytes), ctypes.c_void_p(self._space.stream),
            )  # fmt: skip
            return 0

        copy()
        fastest = min(self._space.timed(copy)[1] for _ in range(_COPIES))
        if fastest <= 0:
            raise HarnessError("the events around a copy show no time")
        return 2 * nbytes / fastest


def open_tools(space: Space) -> DeviceTools | None:
    """The tools of a device space; None on the host. DriverError where the driver lacks a call."""
    return DeviceTools(space) if space.space == "device" else None


__all__ = ["L2_ROUNDS", "DeviceTools", "DriverError", "open_tools"]
