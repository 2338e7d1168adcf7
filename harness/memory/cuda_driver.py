"""libcuda.so.1 through ctypes: every call checked, an error names the call and the code."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

from harness.errors import EnvironmentProblem, HarnessError

NO_DEVICE = 100
NOT_SUPPORTED = 801
_NOT_READY = 600
_HARMLESS = (1, 2, NOT_SUPPORTED)  # invalid value, out of memory: the context lives on
_ATTRIBUTES = {"multiprocessors": 16, "major": 75, "minor": 76}
_CAPTURE_THREAD_LOCAL = 1
_NON_BLOCKING = 1
_DEFAULT_STREAMS = (1, 2)  # the legacy one, and that of this thread
_REMEDY = "run on a machine with an NVIDIA GPU and driver, or use --target cpu"


class DriverError(HarnessError):
    """A driver call failed. ``fatal``: nothing of this process can use the device any more."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call} failed with {name or 'an unnamed error'} ({code})")
        self.call, self.code = call, code
        self.fatal = code not in _HARMLESS


class Driver:
    """The driver, initialised, with the primary context of the first visible device current."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise EnvironmentProblem(
                f"no NVIDIA driver (libcuda.so.1 cannot be loaded); {_REMEDY}"
            ) from error
        try:
            self.call("cuInit", ctypes.c_uint(0))
            count = ctypes.c_int(0)
            self.call("cuDeviceGetCount", ctypes.byref(count))
        except DriverError as error:
            raise EnvironmentProblem(f"the NVIDIA driver is unusable: {error}; {_REMEDY}") from error
        if count.value < 1:
            raise EnvironmentProblem(f"the NVIDIA driver shows no device; {_REMEDY}")
        self._device = ctypes.c_int(0)
        self.call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(0))
        self._usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """One driver call; DriverError unless it returns CUDA_SUCCESS."""
        self._code(name, (0,), arguments)

    def _code(self, name: str, good: tuple[int, ...], arguments: tuple[Any, ...]) -> int:
        function = getattr(self._library, name, None)
        if function is None:
            raise DriverError(name, NOT_SUPPORTED, "no such symbol in this driver")
        code = function(*arguments)
        if code not in good:
            raise DriverError(name, code, self._error_name(code))
        return int(code)

    def made(self, name: str, *arguments: Any) -> int:
        """A call that returns a handle or address through its first argument."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value or 0

    def facts(self) -> dict[str, str]:
        """Device name, compute capability, driver, memory."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, ctypes.c_int(len(name)), self._device)
        version = ctypes.c_int(0)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        total = ctypes.c_size_t(0)
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), self._device)
        major, minor = self._attribute("major"), self._attribute("minor")
        return {
            "device": name.value.decode("utf-8", "replace"),
            "compute capability": f"{major}.{minor}",
            "multiprocessors": str(self._attribute("multiprocessors")),
            "device memory": f"{total.value / 2**30:.1f} GiB",
            "driver": f"CUDA {version.value // 1000}.{version.value % 1000 // 10}{_module_version()}",
        }

    def allocate(self, nbytes: int) -> int:
        """The address of a new allocation."""
        return self.made("cuMemAlloc_v2", ctypes.c_size_t(nbytes))

    def free(self, address: int) -> None:
        """Give an allocation back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def host_to_device(self, address: int, source: int, nbytes: int) -> None:
        """Copy and wait until the bytes have arrived."""
        self.call(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(source), ctypes.c_size_t(nbytes)
        )
        self.synchronize()  # from pageable memory the copy may still be on its way when the call returns

    def allocate_pinned(self, nbytes: int) -> int:
        """The address of new page-locked host memory."""
        return self.made("cuMemAllocHost_v2", ctypes.c_size_t(nbytes))

    def free_pinned(self, address: int) -> None:
        """Give page-locked memory back."""
        self.call("cuMemFreeHost", ctypes.c_void_p(address))

    def pause(self, stream: int, microseconds: int) -> None:
        """Let the stream do nothing for a while: the C library's usleep as a function of the host.

        A host function gets one pointer, which usleep takes for its number; no Python runs in it.
        """
        self.call("cuLaunchHostFunc", ctypes.c_void_p(stream), self._usleep, ctypes.c_void_p(microseconds))

    def host_to_device_on(self, stream: int, address: int, source: int, nbytes: int) -> None:
        """Enqueue a copy from page-locked memory."""
        self.call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_uint64(address),
            ctypes.c_void_p(source),
            ctypes.c_size_t(nbytes),
            ctypes.c_void_p(stream),
        )

    def device_to_host(self, target: int, address: int, nbytes: int) -> None:
        """Copy after all streams of the device have ended."""
        self.synchronize()
        self.call(
            "cuMemcpyDtoH_v2", ctypes.c_void_p(target), ctypes.c_uint64(address), ctypes.c_size_t(nbytes)
        )

    def synchronize(self) -> None:
        """Wait for all streams of the context."""
        self.call("cuCtxSynchronize")

    def new_stream(self) -> int:
        """A stream that does not wait for the default stream."""
        return self.made("cuStreamCreate", ctypes.c_uint(_NON_BLOCKING))

    def new_event(self) -> int:
        """An event that can be timed."""
        return self.made("cuEventCreate", ctypes.c_uint(0))

    def record_event(self, event: int, stream: int) -> None:
        """Put the event into the stream."""
        self.call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def happened(self, event: int) -> bool:
        """True where all that was in its stream before the event has ended."""
        return self._code("cuEventQuery", (0, _NOT_READY), (ctypes.c_void_p(event),)) == 0

    def default_streams_idle(self) -> bool:
        """True where nothing is under way on a default stream of this context."""
        return all(
            self._code("cuStreamQuery", (0, _NOT_READY), (ctypes.c_void_p(stream),)) == 0
            for stream in _DEFAULT_STREAMS
        )

    def elapsed(self, start: int, end: int) -> float:
        """Seconds between two events that have happened."""
        milliseconds = ctypes.c_float(0)
        self.call(
            "cuEventElapsedTime", ctypes.byref(milliseconds), ctypes.c_void_p(start), ctypes.c_void_p(end)
        )
        return milliseconds.value / 1e3

    def begin_capture(self, stream: int) -> None:
        """Record what this thread enqueues on ``stream`` from now on."""
        self.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), ctypes.c_int(_CAPTURE_THREAD_LOCAL))

    def end_capture(self, stream: int) -> int:
        """The graph recorded since `begin_capture`."""
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        return graph.value or 0

    def instantiate(self, graph: int) -> int:
        """An executable graph; ``graph`` itself is destroyed."""
        try:
            return self.made("cuGraphInstantiateWithFlags", ctypes.c_void_p(graph), ctypes.c_ulonglong(0))
        finally:
            self.call("cuGraphDestroy", ctypes.c_void_p(graph))

    def launch_graph(self, executable: int, stream: int) -> None:
        """Enqueue an executable graph."""
        self.call("cuGraphLaunch", ctypes.c_void_p(executable), ctypes.c_void_p(stream))

    def destroy_graph(self, executable: int) -> None:
        """Give an executable graph back."""
        self.call("cuGraphExecDestroy", ctypes.c_void_p(executable))

    def _attribute(self, name: str) -> int:
        value = ctypes.c_int(0)
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(_ATTRIBUTES[name]), self._device)
        return value.value

    def _error_name(self, code: int) -> str:
        function = getattr(self._library, "cuGetErrorName", None)
        text = ctypes.c_char_p()
        if function is None or function(ctypes.c_int(code), ctypes.byref(text)) != 0 or text.value is None:
            return ""
        return text.value.decode("ascii", "replace")


def _module_version() -> str:
    """The version of the kernel module, where the system shows it."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    return f", {found[0]}" if found else ""
