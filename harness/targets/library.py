"""A shared library with the C ABI of ``ddtree.h``: loaded, queried, and called symbol by symbol."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from harness.contract import (
    ABI_VERSION,
    CAPABILITIES,
    CONTRACT_VERSION,
    KERNELS,
    LSE_BASES,
    MEMORY_SPACES,
    OK,
    status_text,
)
from harness.errors import EnvironmentProblem
from harness.targets.abi import HINTS, INFO, declare, filled


class Library:
    """One loaded library. EnvironmentProblem where it cannot be loaded or speaks another version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._exported: dict[str, bool] = {}
        try:
            self.handle = ctypes.CDLL(str(path.resolve()))
        except OSError as error:
            raise EnvironmentProblem(f"{path.name}: cannot be loaded ({error})") from error
        if not self.has("ddtree_query"):
            raise EnvironmentProblem(f"{path.name}: exports no ddtree_query; see cuda/include/ddtree.h")
        declare(self.handle)
        self._info = self._query()
        major = self._info.contract_major
        if self._info.abi_version != ABI_VERSION:
            raise EnvironmentProblem(
                f"{path.name}: ABI version {self._info.abi_version}, this harness speaks {ABI_VERSION}"
            )
        if major != CONTRACT_VERSION[0]:
            raise EnvironmentProblem(
                f"{path.name}: contract {major}.x, this harness checks {CONTRACT_VERSION[0]}.x"
            )
        if self._info.memory_space not in MEMORY_SPACES or self._info.lse_base not in LSE_BASES:
            raise EnvironmentProblem(
                f"{path.name}: ddtree_query names memory space {self._info.memory_space} and lse base "
                f"{self._info.lse_base}; ddtree.h has 0 and 1 of each"
            )
        if negative := [f"{name} {value}" for name, value in self.limits.items() if value < 0]:
            raise EnvironmentProblem(
                f"{path.name}: ddtree_query names negative limits ({', '.join(negative)}); "
                "fill all of ddtree_info"
            )

    @property
    def memory_space(self) -> str:
        """``HOST`` or ``DEVICE``."""
        return MEMORY_SPACES[self._info.memory_space]

    @property
    def lse_base2(self) -> bool:
        """True where lse comes as a base-2 logarithm."""
        return LSE_BASES[self._info.lse_base] == "BASE2"

    @property
    def description(self) -> str:
        """The library's own line about itself."""
        text = self._info.description
        return "" if text is None else str(text.decode("utf-8", "replace"))

    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """Declared capabilities, in the contract's order."""
        return tuple(name for name, bit in CAPABILITIES.items() if self._info.capabilities & bit)

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """Declared limits by name (``max_B`` ..)."""
        return {name: getattr(self._info, name) for name, *_ in INFO._fields_ if name.startswith("max_")}

    @cached_property
    def sha256(self) -> str:
        """Hash of the file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def has(self, symbol: str) -> bool:
        """True where the library exports ``symbol``."""
        if symbol not in self._exported:  # looking for one that is not there takes long
            self._exported[symbol] = hasattr(self.handle, symbol)
        return self._exported[symbol]

    def function_address(self, symbol: str) -> int:
        """The address of an exported function, for a hook."""
        return ctypes.cast(getattr(self.handle, symbol), ctypes.c_void_p).value or 0

    def workspace_bytes(self, kernel: str, args: ctypes.Structure) -> tuple[int, int]:
        """Status and bytes of workspace; none where the library has no such query."""
        if not self.has("ddtree_workspace_bytes"):
            return OK, 0
        wanted = ctypes.c_uint64(0)
        status = self.handle.ddtree_workspace_bytes(
            KERNELS[kernel].kernel_id, ctypes.addressof(args), ctypes.byref(wanted)
        )
        return int(status), int(wanted.value)

    def plan(self, kernel: str, args: ctypes.Structure, hints: Mapping[str, int]) -> int:
        """Status of the optional planning call."""
        if not self.has("ddtree_plan"):
            return OK
        made = filled(HINTS, hints)
        return int(
            self.handle.ddtree_plan(KERNELS[kernel].kernel_id, ctypes.addressof(args), ctypes.addressof(made))
        )

    def call(
        self, kernel: str, args: ctypes.Structure, workspace: int, nbytes: int, stream: int | None
    ) -> int:
        """Status of one kernel call."""
        function = getattr(self.handle, KERNELS[kernel].symbol)
        return int(function(ctypes.addressof(args), workspace or None, nbytes, stream))

    def hook(self, symbol: str, args: ctypes.Structure, stream: int | None) -> int:
        """Status of one planted utility."""
        return int(getattr(self.handle, symbol)(ctypes.addressof(args), stream))

    def _query(self) -> ctypes.Structure:
        info = INFO()
        info.struct_bytes = ctypes.sizeof(INFO)
        status = self.handle.ddtree_query(ctypes.addressof(info))
        if status != OK:
            raise EnvironmentProblem(f"{self.path.name}: ddtree_query returned {status_text(status)}")
        return info
