"""Metamorphic families of tree_build, tree_accept and kv_commit: one batch in two orders.

Side ``b`` holds the requests of side ``a`` in another order, and its answers in that order. In tree_build and
tree_accept the first request of side ``a`` also stands last: both places give the same answer. Requests of
kv_commit keep their pages, so the pool after the call is the same on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from harness.case import AnyArray, Value, materialize
from harness.cases.base import Draft, Family, Params
from harness.cases.blocks.plans import tiers
from harness.contract import KERNELS
from harness.draw import Draw
from harness.stacked import Asking

SIDES = ("a", "b")


def turned(batch: int) -> list[int]:
    """The order of side ``b``: place p holds request ``turned(batch)[p]`` of side ``a``."""
    return [*range(1, batch), 0]


def in_two_orders(kernel: str, source: Family, smoke: list[Params], standard: list[Params]) -> Family:
    """A family that takes its batches from ``source``."""
    return Family(
        "related",
        kernel,
        "Pairs of cases: a batch, and the same requests in another order.",
        tiers(smoke, standard),
        _maker(kernel, source),
        partners="side",
    )


def _maker(kernel: str, source: Family) -> Callable[[Params, Draw], Asking[Draft | None]]:
    own = [a.name for a in KERNELS[kernel].arrays if a.role != "out" and a.dims[0] == "B"]

    def make(params: Params, draw: Draw) -> Asking[Draft | None]:
        draft = yield from source.draft(params, draw)
        if draft is None:
            return None
        inputs: dict[str, Value] = dict(draft.inputs)
        if kernel != "kv_commit":
            for name in own:
                inputs[name] = _twins(materialize(inputs[name]))
        if params["side"] == "b":
            order = turned(len(materialize(inputs[own[0]])))
            for name in own:
                inputs[name] = materialize(inputs[name])[order]
        return replace(draft, inputs=inputs, flags=tuple(sorted({*draft.flags, "metamorphic"})))

    return make


def _twins(array: AnyArray) -> AnyArray:
    """The first request once more at the end."""
    return np.concatenate([array, array[:1]])
