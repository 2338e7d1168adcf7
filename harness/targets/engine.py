"""The machinery around the calls of a library: its memory, its workspace, its emulator, its status codes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from harness.contract import OK, UNSUPPORTED, status_text
from harness.memory.buffers import Arena, Delays
from harness.memory.space import Space
from harness.observation import DECLARED, Round, Status
from harness.targets.emulator import Emulator
from harness.targets.library import Library

MAX_WORKSPACE = 1 << 36  # bytes

# Microseconds by which inputs come late. The host enqueues a call in 10 to 60; where other processes use the
# device, what it enqueues may wait for some thousands.
PAUSES = (300, 2_000, 15_000)

NEVER_LATE = (
    "a call waits for the device, or keeps a default stream busy: work that it put on another stream than "
    "the one given may have gone unseen"
)


class Refused(Exception):
    """A call outside the kernels returned a status other than OK."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(f"{what} returned {status_text(status)}")
        self.what, self.status = what, status


class Greedy(Refused):
    """A workspace that no machine has."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)


class Watched(Protocol):
    """Buffers that are watched while a target runs."""

    def forbid(self, forbidden: bool) -> None:
        """While the target runs: an address sanitizer, where one is loaded, traps on the guards."""

    def fetch(self) -> None:
        """Bring them back."""


class Engine:
    """A library with everything that a run needs."""

    def __init__(
        self, library: Library, space: Space, emulator: Emulator | None, planted: Library | None
    ) -> None:
        self.library = library
        self.space = space
        self.delays = space if isinstance(space, Delays) else None
        self.emulator = emulator
        self.planted = planted  # whose planted utilities are used, where the library has none
        self.wants_lse = "ATTN_LSE" in library.capabilities
        self._kept: tuple[Watched, ...] = ()

    def with_late_inputs(self, run: Callable[[], Round]) -> Round:
        """``run``; again, with a longer pause, while its inputs came so early that a pass says little."""
        if self.delays is None:
            return run()
        tried: list[Round] = []
        for pause in PAUSES:
            self.delays.delay(pause)
            tried.append(run())
            if not self.delays.missed or tried[-1].status != "done":
                return replace(tried[-1], before=tuple(tried[:-1]))
        return replace(tried[-1], before=tuple(tried[:-1]), notes=(*tried[-1].notes, NEVER_LATE))

    def keep(self, *arenas: Watched) -> None:
        """Hold the blocks of this run until the next, so that the next gets other addresses."""
        self._kept = arenas

    def workspace(self, kernel: str, args: ctypes.Structure, round_index: int) -> Workspace:
        """The workspace that the library wants for these arguments, poisoned."""
        status, nbytes = self.library.workspace_bytes(kernel, args)
        if status != OK:
            raise Refused("ddtree_workspace_bytes", status)
        if nbytes > MAX_WORKSPACE:
            raise Greedy(f"ddtree_workspace_bytes asks for {nbytes} bytes, more than {MAX_WORKSPACE}")
        arena = Arena(self.space, {"workspace": nbytes}, round_index, ("workspace",))
        return Workspace(arena, nbytes)

    def plan(self, kernel: str, args: ctypes.Structure, hints: Mapping[str, int]) -> None:
        """The planning call, outside of timing and capture."""
        status = self.library.plan(kernel, args, hints)
        if status != OK:
            raise Refused("ddtree_plan", status)

    def call(self, kernel: str, args: ctypes.Structure, workspace: Workspace) -> int:
        """One kernel call; its status."""
        return self.library.call(kernel, args, workspace.address, workspace.nbytes, self.space.stream)

    def timed(self, arenas: Sequence[Watched], call: Callable[[], int]) -> tuple[int, float]:
        """Status and seconds of one call; meanwhile the guards of ``arenas`` trap, then all are fetched."""
        for arena in arenas:
            arena.forbid(True)
        status, seconds = self.space.timed(call)
        for arena in arenas:
            arena.forbid(False)
            arena.fetch()
        return status, seconds

    def verdict(self, status: int, what: str) -> tuple[Status, str]:
        """A status code as a round's status and message, with what the emulator reports."""
        if status == OK:
            return "done", ""
        if status == UNSUPPORTED:
            return "refused", f"{DECLARED}{what} returned UNSUPPORTED"
        report = self.emulator.report() if self.emulator is not None else ""
        return "failed", f"{what} returned {status_text(status)}" + (f": {report}" if report else "")

    def refused_round(self, refused: Refused) -> Round:
        """The round of a call that never came to the kernel."""
        if isinstance(refused, Greedy):
            return Round("failed", str(refused))
        state, message = self.verdict(refused.status, refused.what)
        return Round(state, message)


class Workspace:
    """A guarded workspace."""

    def __init__(self, arena: Arena, nbytes: int) -> None:
        self.arena, self.nbytes = arena, nbytes
        self.address = arena.address("workspace")
