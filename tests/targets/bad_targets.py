"""Known-bad Python targets: each is found out by exactly one outcome."""

from __future__ import annotations

import os
import time

import numpy as np

import references
from harness.contract import KERNELS
from harness.targets.python import Reference

HIT = 8  # the budget of the one tree_build case that every bad target spoils


class _Base:
    """The reference, but for the cases that ``hit`` names."""

    def __init__(self) -> None:
        self._right = Reference()

    def tree_build(self, **arguments):
        outputs = self._right.tree_build(**arguments)
        return self.spoil(arguments, outputs) if arguments["budget"] == HIT else outputs

    def tree_accept(self, **arguments):
        return self._right.tree_accept(**arguments)

    def spoil(self, arguments, outputs):
        raise AssertionError


class Right(_Base):
    def spoil(self, arguments, outputs):
        return outputs


class Shared(_Base):
    """Wrong in its first run, right in later ones, and every run returns the same arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._kept = None

    def spoil(self, arguments, outputs):
        if self._kept is None:
            self._kept = {name: np.full_like(value, 7) for name, value in outputs.items()}
        else:
            for name, value in outputs.items():
                self._kept[name][...] = value
        return self._kept


class NoOp(_Base):
    def spoil(self, arguments, outputs):
        return {}


class NotADict(_Base):
    def spoil(self, arguments, outputs):
        return list(outputs.values())


class Zeros(_Base):
    def spoil(self, arguments, outputs):
        return {name: np.zeros_like(value) for name, value in outputs.items()}


class Constants(_Base):
    def spoil(self, arguments, outputs):
        return {name: np.full_like(value, 7) for name, value in outputs.items()}


class WrongDtype(_Base):
    def spoil(self, arguments, outputs):
        return {**outputs, "node_depth": outputs["node_depth"].astype(np.int64)}


class WrongShape(_Base):
    def spoil(self, arguments, outputs):
        return {**outputs, "tree_mask": outputs["tree_mask"][:, :, 0]}


class InPlace(_Base):
    def spoil(self, arguments, outputs):
        arguments["topk_token"][0, 0, 0] += 1
        return outputs


class Sleeps(_Base):
    def spoil(self, arguments, outputs):
        time.sleep(600)
        return outputs


class Aborts(_Base):
    def spoil(self, arguments, outputs):
        os.write(2, b"about to abort\n")
        os.abort()


class Exits(_Base):
    def spoil(self, arguments, outputs):
        os._exit(0)


class Raises(_Base):
    def spoil(self, arguments, outputs):
        raise RuntimeError("no such luck")


class Refuses(_Base):
    def spoil(self, arguments, outputs):
        raise NotImplementedError("eight is too many")


class Prints(_Base):
    def spoil(self, arguments, outputs):
        print("x" * 300_000, flush=True)
        return outputs


class ClosesOutput(_Base):
    """Closes its stdout and stderr, then hangs: the deadline still counts."""

    def spoil(self, arguments, outputs):
        os.close(1)
        os.close(2)
        time.sleep(600)
        return outputs


class Flickers(_Base):
    """Right, but -0.0 and 0.0 alternate."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def verify_attn(self, **arguments):
        outputs = self._right.verify_attn(**arguments)
        self._calls += 1
        if self._calls % 2:
            outputs["out"][outputs["out"] == 0] = 0x8000
        return outputs


class AllNaN(_Base):
    def verify_attn(self, **arguments):
        outputs = self._right.verify_attn(**arguments)
        return {"out": np.full_like(outputs["out"], 0x7FC0), "lse": np.full_like(outputs["lse"], np.nan)}


class CopiesInput(_Base):
    """Hands back the first input that has the output's dtype and as many elements, else zeros."""

    def __getattr__(self, kernel):
        if kernel not in KERNELS:
            raise AttributeError(kernel)

        def copy(**arguments):
            outputs = getattr(self._right, kernel)(**arguments)
            arrays = [v for v in arguments.values() if isinstance(v, np.ndarray)]
            return {
                name: next(
                    (a.reshape(o.shape).copy() for a in arrays if a.dtype == o.dtype and a.size == o.size),
                    np.zeros_like(o),
                )
                for name, o in outputs.items()
            }

        return copy

    def tree_build(self, **arguments):
        return self.__getattr__("tree_build")(**arguments)

    def tree_accept(self, **arguments):
        return self.__getattr__("tree_accept")(**arguments)


class LocalReference:
    """The ten-line target of docs/targets.md."""

    def tree_build(self, **arguments):
        return references.tree_build(**arguments)


class CannotStart:
    def __init__(self) -> None:
        raise RuntimeError("no licence")


class HidesOut(_Base):
    absent = ("out",)


class HidesByText(_Base):
    absent = "lse"


class Clocked(_Base):
    """Says of the spoiled case that it took no time that there is."""

    timing = "event"
    told: object = 1e-6

    def spoil(self, arguments, outputs):
        return {**outputs, "seconds": self.told}


class NoTime(Clocked):
    told = float("nan")


class NegativeTime(Clocked):
    told = -1.0


class TextTime(Clocked):
    told = "soon"
