"""Metamorphic cases of tree_build, tree_accept and kv_commit: one batch in two orders.

Side ``b`` holds the requests of side ``a`` in another order, and its answers in that order. In tree_build and
tree_accept the first request of side ``a`` also stands last: both places give the same answer. Requests of
kv_commit keep their pages, so the pool after the call is the same on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from harness.case import AnyArray, Value, materialize
from harness.cases import accept_batch, commit_moves, tree_batch
from harness.cases.base import Draft, Family, Params
from harness.cases.plans import grid, tiers
from harness.cases.related_attention import SIDES, turned
from harness.contract import KERNELS
from harness.draw import Draw


def _family(kernel: str, source: Family, smoke: list[Params], standard: list[Params]) -> Family:
    """A family that takes its batches from ``source``."""
    return Family(
        "related",
        kernel,
        "Pairs of cases: a batch, and the same requests in another order.",
        tiers(smoke, standard),
        _maker(kernel, source),
        partners="side",
    )


def _maker(kernel: str, source: Family) -> Callable[[Params, Draw], Draft | None]:
    own = [a.name for a in KERNELS[kernel].arrays if a.role != "out" and a.dims[0] == "B"]

    def make(params: Params, draw: Draw) -> Draft | None:
        draft = source.make(params, draw)
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


BUILD = _family(
    "tree_build",
    tree_batch.RAGGED,
    grid(B=(3,), budget=(9,), side=SIDES),
    grid(B=(3, 7), budget=(20, 40, 64), side=SIDES),
)
ACCEPT = _family(
    "tree_accept",
    accept_batch.RAGGED,
    grid(B=(3,), N=(12,), A=(5,), side=SIDES),
    grid(B=(3, 7), N=(20, 33), A=(5, 9), side=SIDES),
)
COMMIT = _family(
    "kv_commit",
    commit_moves.BATCH,
    [],
    grid(B=(2, 4), S=(1, 7), Y=(2,), sleep=("none",), side=SIDES),
)
