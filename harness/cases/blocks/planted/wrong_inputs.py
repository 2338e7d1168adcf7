"""Attention outputs under wrong inputs: every flipped mask bit, wrong masks, lengths, scales and positions.

The planted head gives each of them a row of its own (see `centroid_head`), so that a kernel with that bug
predicts a token that occurs nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.cases.blocks.attention.rows import Rows

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

WRONG_SCALES = {"width_576": 3.0**-0.5, "base_2": 0.6931471805599453}


@dataclass(frozen=True)
class Problem:
    """Attention of one request in float64.

    ``q`` [n,Hq,Dk], ``kv`` [P+n+1,R] (one slot more than is used), ``sees`` bool [n,n].
    """

    rows: Rows
    scale: float
    prefix: int
    q: Floats
    kv: Floats
    sees: Bools

    def slots(self, prefix: int, sees: Bools) -> Bools:
        """Bool [n,P+n+1]: the slots seen with ``prefix`` rows and a tail that starts there."""
        seen = np.zeros((len(self.q), len(self.kv)), np.bool_)
        seen[:, :prefix] = True
        seen[:, prefix : prefix + sees.shape[1]] = sees
        return seen

    def weights(self) -> Floats:
        """Exponentials of the logits over the largest of each row, of every slot, [n,Hq,P+n+1]."""
        groups = self.rows.Hkv
        keys = self.kv[:, : groups * self.rows.Dk].reshape(len(self.kv), groups, -1)
        queries = self.q.reshape(len(self.q), groups, -1, self.rows.Dk)
        logits = np.stack([queries[:, g] @ keys[:, g].T for g in range(groups)], axis=1)
        logits = self.scale * logits.reshape(len(self.q), self.rows.Hq, -1)
        weight: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weight

    def head_values(self) -> Iterator[Floats]:
        """Values [P+n+1,Dv] for each query head."""
        first = 0 if self.rows.is_mla else self.rows.Hkv * self.rows.Dk
        for h in range(self.rows.Hq):
            start = first + h // (self.rows.Hq // self.rows.Hkv) * self.rows.Dv
            yield self.kv[:, start : start + self.rows.Dv]

    def attend(self, seen: Bools) -> Floats:
        """Outputs [m,n,Hq*Dv] under the slot masks ``seen`` bool [m,n,P+n+1]; 0 where nothing is seen."""
        weight = np.where(seen[:, :, None], self.weights(), 0.0)
        total = weight.sum(axis=-1, keepdims=True)
        weight /= np.where(total == 0.0, 1.0, total)
        parts = [weight[:, :, h] @ value for h, value in enumerate(self.head_values())]
        return np.concatenate(parts, axis=-1)


def flipped(problem: Problem) -> Floats:
    """Outputs [n,n,Hq*Dv]: row i with bit j flipped, in closed form from the right output."""
    seen = problem.slots(problem.prefix, problem.sees)
    weight = problem.weights()
    total = np.where(seen[:, None], weight, 0.0).sum(axis=-1, keepdims=True)
    right = problem.attend(seen[None])[0]
    tail = slice(problem.prefix, problem.prefix + len(problem.q))
    sign = np.where(problem.sees, -1.0, 1.0)[:, None]
    after = total + sign * weight[..., tail]
    alone = seen.sum(axis=-1)[:, None, None] == 1  # hiding the only key leaves nothing
    empty = alone & problem.sees[:, None]
    share = np.where(empty, 0.0, sign * weight[..., tail] / np.where(empty, 1.0, after))
    dv = problem.rows.Dv
    parts = []
    for h, value in enumerate(problem.head_values()):
        out = right[:, None, h * dv : (h + 1) * dv]
        moved = out + share[:, h, :, None] * (value[tail][None] - out)
        parts.append(np.where(empty[:, 0, :, None], 0.0, moved))
    return np.concatenate(parts, axis=-1)


def wrong_masks(problem: Problem, others: Sequence[Bools]) -> dict[str, Bools]:
    """Slot masks bool [n,P+n+1] by name; ``others`` are the masks of the other live requests."""
    sees, prefix, nodes = problem.sees, problem.prefix, len(problem.sees)
    shifted = np.zeros_like(sees)
    shifted[:, 1:] = sees[:, :-1]
    tails = {
        "causal": np.tri(nodes, dtype=np.bool_),
        "full": np.ones_like(sees),
        "empty": np.zeros_like(sees),
        "transposed": sees.T,
        "shifted_bits": shifted,
        "shifted_rows": np.roll(sees, 1, axis=0),
    }
    for number, other in enumerate(others):
        tails[f"other_request_{number}"] = np.zeros_like(sees)
        both = min(nodes, len(other))
        tails[f"other_request_{number}"][:both, :both] = other[:both, :both]
    masks = {name: problem.slots(prefix, tail) for name, tail in tails.items()}
    masks["prefix_plus_1"] = problem.slots(prefix + 1, sees)
    if prefix:
        masks["prefix_minus_1"] = problem.slots(prefix - 1, sees)
    return masks


def wrong_outputs(
    problem: Problem, others: Sequence[Bools], variants: Mapping[str, Problem]
) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Wrong outputs [m,Hq*Dv] and the row [m] of the request that each belongs to.

    ``variants`` are the same request with other queries or KV rows (a wrong position, a row not written).
    """
    nodes = len(problem.q)
    masks = wrong_masks(problem, others)
    right = problem.slots(problem.prefix, problem.sees)[None]
    outputs = [*flipped(problem).swapaxes(0, 1), *problem.attend(np.stack(list(masks.values())))]
    for factor in WRONG_SCALES.values():
        outputs += [*replace(problem, scale=problem.scale * factor).attend(right)]
    outputs += [variant.attend(right)[0] for variant in variants.values()]
    return np.concatenate(outputs), np.tile(np.arange(nodes), len(outputs))
