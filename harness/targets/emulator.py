"""Controls of a library built with the emulator: thread order, shared-memory fill, reports."""

from __future__ import annotations

import ctypes

from harness.errors import EnvironmentProblem, UsageProblem
from harness.targets.base import parse_order

FILLS = (0x00, 0xFF)  # what shared memory holds before a block starts, by run


class Emulator:
    """The `emu_*` symbols of a library."""

    def __init__(self, library: ctypes.CDLL, order: str | None, workers: int) -> None:
        self._workers = workers
        self._order = None if order is None else parse_order(order)
        self._configure = library.emu_configure
        self._configure.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int]
        self._configure.restype = ctypes.c_int
        self._report, self._clear = library.emu_last_report, library.emu_clear_report
        self._report.argtypes, self._report.restype = [], ctypes.c_char_p
        self._clear.argtypes, self._clear.restype = [], None

    def prepare(self, round_index: int) -> None:
        """Set up one run.

        Unless an order was asked for, runs alternate between forward and reverse; a random order takes
        another seed in each run.
        """
        name, seed = self._order or (("forward", "reverse")[round_index % 2], 0)
        fill = FILLS[round_index % 2]
        if self._configure(name.encode(), seed + round_index, fill, self._workers) != 0:
            raise EnvironmentProblem(f"emulator refuses the thread order {name}")
        self._clear()

    def report(self) -> str:
        """What the emulator found since `prepare`; empty where nothing."""
        text = self._report()
        return "" if text is None else str(text.decode("utf-8", "replace")).strip()


def controls(library: ctypes.CDLL, order: str | None, name: str, workers: int = 1) -> Emulator | None:
    """The controls of a library, None where it has none; UsageProblem if an order was asked for then.

    ``workers`` is how many blocks may run at a time; each worker process of the harness takes one core.
    """
    if hasattr(library, "emu_configure"):
        return Emulator(library, order, workers)
    if order is not None:
        raise UsageProblem(f"target {name} is not emulated and has no thread order; leave out --order")
    return None
