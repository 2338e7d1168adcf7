"""The calls of one greedy step on a library: its own function with hooks, or the four kernels in a row."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

from harness.case import AnyArray
from harness.contract import KERNELS, OK
from harness.shapes import Dims
from harness.targets.arguments import Address, greedy_args, kernel_args, planted_embed_args, planted_head_args
from harness.targets.capability import plan_hints
from harness.targets.engine import Engine, Workspace
from harness.targets.library import Library

_PARTS = ("tree_build", "verify_attn", "tree_accept", "kv_commit")
_ROW_BYTES = 2  # pools of a greedy step are bf16


class Sequence:
    """Arguments that refer to one set of buffers, and how to call with them."""

    def __init__(
        self, engine: Engine, address: Address, dims: Dims, scalars: Mapping[str, int | float], planted: bool
    ) -> None:
        self._engine, self._dims = engine, dims
        self._parts = {name: kernel_args(name, address, dims, scalars, _ROW_BYTES) for name in _PARTS}
        self._own = engine.library.has(KERNELS["greedy_step"].symbol)
        self._hooks: dict[str, tuple[str, ctypes.Structure]] = {}
        self._planted = (planted_library(engine) if planted else None) or engine.library
        if planted:
            self._hooks = {
                "verify_attn": ("ddtree_planted_embed", planted_embed_args(address, dims)),
                "tree_accept": ("ddtree_planted_head", planted_head_args(address, dims)),
            }
        self._greedy = greedy_args(self._parts, self._hook("verify_attn"), self._hook("tree_accept"))
        self.failed = ""  # the symbol whose call failed, of a composed step

    def workspaces(self, round_index: int) -> dict[str, Workspace]:
        """A poisoned workspace for each call that is made."""
        calls = {"greedy_step": self._greedy} if self._own else self._parts
        return {name: self._engine.workspace(name, args, round_index) for name, args in calls.items()}

    def plan(self, inputs: Mapping[str, AnyArray]) -> None:
        """The planning calls, before every step and outside of capture."""
        calls = {"greedy_step": self._greedy} if self._own else self._parts
        for name, args in calls.items():
            self._engine.plan(name, args, plan_hints(inputs, self._dims))

    def caller(self, workspaces: Mapping[str, Workspace]) -> Callable[[], int]:
        """A function that enqueues one step and returns its status."""
        if self._own:
            return lambda: self._engine.call("greedy_step", self._greedy, workspaces["greedy_step"])
        return lambda: self._composed(workspaces)

    def _composed(self, workspaces: Mapping[str, Workspace]) -> int:
        for name, args in self._parts.items():
            if name in self._hooks:
                symbol, context = self._hooks[name]
                if (status := self._planted.hook(symbol, context, self._engine.space.stream)) != OK:
                    self.failed = symbol
                    return status
            if (status := self._engine.call(name, args, workspaces[name])) != OK:
                self.failed = KERNELS[name].symbol
                return status
        return OK

    def _hook(self, before: str) -> tuple[int, int]:
        if before not in self._hooks:
            return 0, 0
        symbol, context = self._hooks[before]
        return self._planted.function_address(symbol), ctypes.addressof(context)


def planted_library(engine: Engine) -> Library | None:
    """Whose planted utilities serve: the library's own where it declares them, else this project's."""
    return engine.library if "PLANTED" in engine.library.capabilities else engine.planted
