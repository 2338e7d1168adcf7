"""Wrong targets in Python, for every kernel. A worker opens them as ``harness.mutants.fakes:Class``."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.case import AnyArray
from harness.contract import KERNELS
from harness.targets.python import Reference

Outputs = dict[str, AnyArray]
NAN_BITS = 0x7FC0


class _Fake(ABC):
    """Every kernel: the right outputs, spoilt."""

    def __init__(self) -> None:
        self._right = Reference()
        self.description = "wrong on purpose"

    def __getattr__(self, kernel: str) -> Callable[..., object]:
        if kernel not in KERNELS:
            raise AttributeError(kernel)
        return lambda **given: self._spoil(kernel, given, getattr(self._right, kernel)(**given))

    @abstractmethod
    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        """What is returned instead of ``outputs``."""


class NoOp(_Fake):
    """Returns nothing."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        return {}


class _Constant(_Fake):
    value: int | float = 0

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        return {name: self._filled(name, value) for name, value in outputs.items()}

    def _filled(self, name: str, value: AnyArray) -> AnyArray:
        """An array like ``value`` of nothing but the constant, in its own dtype; ``out`` holds bf16 bits."""
        if name in ("out", "kv") and value.dtype == np.uint16:
            return np.full_like(value, np.float32(self.value).view(np.uint32) >> np.uint32(16))
        return np.full(value.shape, self.value).astype(value.dtype)


class Zeros(_Constant):
    """Every element 0."""


class Ones(_Constant):
    """Every element 1."""

    value = 1


class MinusOnes(_Constant):
    """Every element -1."""

    value = -1


class Largest(_Constant):
    """Every element the largest of its dtype."""

    def _filled(self, name: str, value: AnyArray) -> AnyArray:
        if value.dtype.kind == "f":
            return np.full_like(value, np.finfo(value.dtype).max)
        return np.full_like(value, 0x7F7F if value.dtype == np.uint16 else np.iinfo(value.dtype).max)


class AllNan(_Constant):
    """Every float NaN, every integer all ones."""

    def _filled(self, name: str, value: AnyArray) -> AnyArray:
        if value.dtype.kind == "f":
            return np.full_like(value, np.nan)
        if value.dtype.kind == "i":
            return np.full_like(value, -1)
        return np.full_like(value, NAN_BITS if value.dtype == np.uint16 else np.iinfo(value.dtype).max)


class InputCopy(_Fake):
    """Outputs are the first input of the same dtype, cut or repeated to fit."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        arrays = [v for v in given.values() if isinstance(v, np.ndarray) and v.size]
        made = {}
        for name, value in outputs.items():
            alike = [a for a in arrays if a.dtype == value.dtype] or [np.zeros(1, value.dtype)]
            made[name] = np.resize(alike[0], value.shape)
        return made


class OneWrong(_Fake):
    """Right, but for the last element of the last output."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        name = [a.name for a in KERNELS[kernel].outputs if a.name in outputs and a.name != "out"][-1]
        wrong = outputs[name].copy()
        flat = wrong.reshape(-1)
        flat[-1] = flat[-1] + 1 if np.isfinite(flat[-1]) else 0
        return {**outputs, name: wrong}


class PreviousAnswer(_Fake):
    """The answer to the call before, where it fits; else zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._before: Outputs = {}

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        before, self._before = self._before, outputs
        return {
            name: before[name]
            if name in before and before[name].shape == value.shape
            else np.zeros_like(value)
            for name, value in outputs.items()
        }


class AnswerByShape(_Fake):
    """The first answer given to inputs of the same shapes."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[object, Outputs] = {}

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        shapes = tuple((name, np.shape(value)) for name, value in sorted(given.items()))
        return self._answers.setdefault((kernel, shapes), outputs)


class EditsInputs(_Fake):
    """Right, but an input changes on the way."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        given["prefix_len" if "prefix_len" in given else "node_count"].flat[0] += 1
        return outputs


class WiderDtype(_Fake):
    """Right, but in 64 bits."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        return {n: v.astype(np.float64 if v.dtype.kind == "f" else np.int64) for n, v in outputs.items()}


class Flat(_Fake):
    """Right, but every output has one axis."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        return {name: np.concatenate([v.reshape(-1), v.reshape(-1)[:1]]) for name, v in outputs.items()}


class ListOfOutputs(_Fake):
    """Right, but without names."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        return list(outputs.values())


class Raises(_Fake):
    """Raises."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        raise RuntimeError("wrong on purpose")


class Aborts(_Fake):
    """Ends its process."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        os.abort()


class Sleeps(_Fake):
    """Never returns."""

    def _spoil(self, kernel: str, given: dict[str, Any], outputs: Outputs) -> object:
        time.sleep(3600)
        return outputs
