"""Clocks, temperature and throttle reasons of a device, from libnvidia-ml.so.1 by its bus id.

Reading takes microseconds and is done between batches of samples, in the supervisor's process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass

from harness.bench_results import Clocks

_SM, _MEMORY = 1, 2
_TEMPERATURE_GPU = 0
_REASONS = {
    1 << 1: "application clocks", 1 << 2: "software power cap", 1 << 3: "hardware slowdown",
    1 << 4: "sync boost", 1 << 5: "software thermal slowdown", 1 << 6: "hardware thermal slowdown",
    1 << 7: "hardware power brake", 1 << 8: "display clocks",
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """One look at the device."""

    sm_mhz: int
    memory_mhz: int
    celsius: int
    reasons: tuple[str, ...]


class Monitor:
    """The device with ``bus_id``. ``unavailable`` says why there are no readings; empty where there are."""

    def __init__(self, bus_id: str) -> None:
        self._device = ctypes.c_void_p()
        self.unavailable = "" if bus_id else "the target names no device"
        if not bus_id:
            return
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
            code = self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByPciBusId_v2(
                bus_id.encode(), ctypes.byref(self._device)
            )
        except (OSError, AttributeError):
            self.unavailable = "libnvidia-ml.so.1 cannot be loaded"
            return
        if code != 0:
            self.unavailable = f"the device cannot be opened there (NVML error {code})"

    def read(self) -> Reading | None:
        """A reading; None where there is none."""
        if self.unavailable:
            return None
        sm, memory, celsius = ctypes.c_uint(0), ctypes.c_uint(0), ctypes.c_uint(0)
        reasons = ctypes.c_ulonglong(0)
        ask, device = self._library, self._device
        try:
            codes = (
                ask.nvmlDeviceGetClockInfo(device, _SM, ctypes.byref(sm)),
                ask.nvmlDeviceGetClockInfo(device, _MEMORY, ctypes.byref(memory)),
                ask.nvmlDeviceGetTemperature(device, _TEMPERATURE_GPU, ctypes.byref(celsius)),
                ask.nvmlDeviceGetCurrentClocksThrottleReasons(device, ctypes.byref(reasons)),
            )
        except AttributeError:
            return None
        if any(codes):
            return None
        names = tuple(name for bit, name in _REASONS.items() if reasons.value & bit)
        return Reading(sm.value, memory.value, celsius.value, names)


def clocks_of(readings: Iterable[Reading | None]) -> Clocks:
    """All readings of one series, in order; reasons once each."""
    known = [r for r in readings if r is not None]
    return Clocks(
        tuple(r.sm_mhz for r in known),
        tuple(r.memory_mhz for r in known),
        tuple(r.celsius for r in known),
        tuple(dict.fromkeys(name for r in known for name in r.reasons)),
    )
