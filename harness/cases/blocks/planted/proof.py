"""One planted step: its head, and the proof that every wrong input shows.

For each wrong input whose outputs differ, the row's ``target_predict`` must change, and on the accepted path
an output of tree_accept. No kernel within its allowance may flip a right prediction: either every margin is
larger than the allowance can take, or a flash-style kernel takes at most a quarter of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.cases.blocks.planted.centroid_head import (
    DECOY,
    EQUAL,
    I32,
    Floats,
    Head,
    build_head,
    margin_used,
    margins,
)
from harness.cases.blocks.planted.flash_emulation import flash_outputs
from harness.cases.blocks.planted.wrong_inputs import Problem, wrong_outputs

FLASH_LIMIT = 0.25
FLOAT32_NOISE = 2.0**-20  # of a logit's size: a head summed in float32 must not flip either

Accept = Callable[[I32], dict[str, npt.NDArray[np.int32]]]


@dataclass(frozen=True)
class Live:
    """One live request of a step, right and with the variants that are wrong by queries or KV rows.

    ``allowed`` [n,Hq*Dv] is the allowance of its outputs, ``planned`` int32 [n] its tokens.
    """

    request: int
    problem: Problem
    variants: dict[str, Problem]
    allowed: Floats
    planned: I32


@dataclass(frozen=True)
class Proof:
    """Counts of (wrong input, row) pairs, and the margins of the right rows."""

    wrong_inputs: int = 0
    equal_outputs: int = 0
    changed_predict: int = 0
    changed_accept: int = 0
    min_margin_ratio: float = np.inf
    flash_margin_used: float = 0.0

    def __add__(self, other: Proof) -> Proof:
        return Proof(
            self.wrong_inputs + other.wrong_inputs,
            self.equal_outputs + other.equal_outputs,
            self.changed_predict + other.changed_predict,
            self.changed_accept + other.changed_accept,
            min(self.min_margin_ratio, other.min_margin_ratio),
            max(self.flash_margin_used, other.flash_margin_used),
        )


def prove(requests: Sequence[Live], predict: I32, accept: Accept) -> tuple[Head, Proof] | None:
    """The head of a step and its proof; None where the proof fails (another seed is needed).

    ``predict`` int32 [B,N] holds the planned tokens; ``accept`` gives the outputs of tree_accept for
    predictions.
    """
    sees = [live.problem.sees for live in requests]
    wrong: list[Floats] = []
    row_of: list[npt.NDArray[np.intp]] = []
    right: list[Floats] = []
    for at, live in enumerate(requests):
        problem = live.problem
        right.append(problem.attend(problem.slots(problem.prefix, problem.sees)[None])[0])
        others = sees[:at] + sees[at + 1 :]
        outputs, row = wrong_outputs(problem, others, live.variants)
        wrong.append(outputs)
        row_of.append(row)
    differ = [
        np.abs(w - out[row]).max(axis=1) > EQUAL for w, out, row in zip(wrong, right, row_of, strict=True)
    ]
    planned = np.concatenate([live.planned for live in requests])
    shown = np.concatenate([w[d] for w, d in zip(wrong, differ, strict=True)])
    everything = np.concatenate(right)
    head = build_head(everything, planned, shown)
    if head is None or (head.predict(everything) != planned).any():
        return None
    proof = _margins(head, requests, everything, planned)
    if proof is None:
        return None
    normal = accept(predict)
    for live, out, row, seen in zip(requests, wrong, row_of, differ, strict=True):
        token = head.predict(out[seen])
        if (token == live.planned[row[seen]]).any():
            return None
        shows = _accept_changes(live, row[seen], token, predict, normal, accept)
        if shows is None:
            return None
        changed = int(seen.sum())
        proof += Proof(len(out), len(out) - changed, changed, shows)
    return head, proof


def _margins(head: Head, requests: Sequence[Live], right: Floats, planned: I32) -> Proof | None:
    """Smallest ratio, and what a flash-style kernel uses of margins below 1; None beyond the limits."""
    margin, ratio = margins(head, right, planned, np.concatenate([live.allowed for live in requests]))
    size = np.abs(head.logits(right)).max(axis=1) + np.abs(head.head_bias).max()
    if (margin <= FLOAT32_NOISE * size[:, None]).any():
        return None
    lowest = ratio.min(axis=1)
    used = 0.0
    start = 0
    for live in requests:
        here = slice(start, start + len(live.planned))
        start += len(live.planned)
        if (lowest[here] < 1.0).any():
            shares = margin_used(head, margin[here], right[here], flash_outputs(live.problem))
            used = max(used, float(shares[lowest[here] < 1.0].max()))
    if used > FLASH_LIMIT:
        return None
    return Proof(min_margin_ratio=float(lowest.min()), flash_margin_used=used)


def _accept_changes(
    live: Live,
    row: npt.NDArray[np.intp],
    token: I32,
    predict: I32,
    normal: dict[str, npt.NDArray[np.int32]],
    accept: Accept,
) -> int | None:
    """How many wrong tokens on the accepted path change an output of tree_accept; None if one does not.

    The prediction after the last accepted node counts only where it is emitted.
    """
    b = live.request
    path = normal["accept_index"][b, : int(normal["accept_len"][b]) + 1]
    asked = path if normal["bonus_token"][b] != -1 else path[:-1]
    changed = 0
    known: dict[tuple[int, int], bool] = {}
    for i in asked.tolist():
        for t in token[row == i].tolist():
            key = (i, min(t, DECOY))  # all decoys act alike
            if key not in known:
                tried = predict.copy()
                tried[b, i] = t
                outcome = accept(tried)
                known[key] = any((outcome[name] != normal[name]).any() for name in normal)
            if not known[key]:
                return None
            changed += 1
    return changed
