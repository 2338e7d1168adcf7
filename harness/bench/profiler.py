"""Device spans through torch's profiler (Kineto over CUPTI): the one module that knows it.

CUPTI watches the driver's context, so it sees the kernels of any library of this process, those of graphs
too. It costs seconds to start and stays loaded: a process that used it is not to be timed afterwards.
"""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.bench_results import DeviceSpan, quantile
from harness.errors import HarnessError

Made = TypeVar("Made")
_COPIES = ("Memset (", "Memcpy ")  # what the profiler calls what is no kernel


class Launch(NamedTuple):
    """One run of a kernel on the device."""

    name: str
    start: int  # nanoseconds on the profiler's clock
    nanoseconds: int


def unavailable() -> str:
    """Why nothing can be recorded here, or empty. Imports nothing: torch takes seconds to import."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return "torch is not installed"
    try:
        version = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    except OSError:
        return "torch here does not say what it was built for"
    return "" if version.get("cuda") else "torch here is built without CUDA"


def recorded(call: Callable[[], Made]) -> tuple[list[Launch], Made]:
    """The kernels that ``call`` makes run, in the order of their starts, and its result; it waits for them.

    HarnessError where the profiler cannot be used.
    """
    from torch.profiler import ProfilerActivity, profile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how it keeps events over several cycles: there is one
            with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                made = call()
            events = profiler.profiler.kineto_results.events()
    except (RuntimeError, AttributeError, AssertionError) as error:
        raise HarnessError(f"torch's profiler failed ({type(error).__name__}: {error})") from error
    launches = [
        Launch(event.name(), event.start_ns(), event.duration_ns())
        for event in events
        if event.device_type().name == "CUDA" and not event.name().startswith(_COPIES)
    ]
    return sorted(launches, key=lambda launch: launch.start), made


def spans_of(launches: Iterable[Launch], cache: str, calls: int) -> list[DeviceSpan]:
    """The spans of each kernel over ``calls`` calls, kernels in the order in which they first began."""
    found: dict[str, list[float]] = {}
    for launch in launches:
        found.setdefault(readable(launch.name), []).append(launch.nanoseconds / 1e9)
    return [
        DeviceSpan(
            cache=cache,
            kernel=kernel,
            launches=len(spans) / calls,
            min=min(spans),
            median=quantile(spans, 0.5),
            p95=quantile(spans, 0.95),
            count=len(spans),
        )
        for kernel, spans in found.items()
    ]


def readable(name: str) -> str:
    """A kernel's name without result type, parameters and unnamed namespaces; template arguments stay."""
    name = name.partition(" [clone")[0].removeprefix("void ")
    for unnamed in ("(anonymous namespace)::", "<unnamed>::"):
        name = name.replace(unnamed, "")
    return name[: _parameters(name)] if name.endswith(")") else name


def _parameters(name: str) -> int:
    """Where the parenthesis opens that the last character closes; the whole length where none does."""
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return at
    return len(name)
