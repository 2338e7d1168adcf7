"""The planted head: nearest centroid over right and wrong attention outputs.

One row per output vector c: ``head`` = bf16(c - mean), ``head_bias`` = float32(-|c'|^2 / 2) with c' = the
rounded row plus the mean. Then head . out + bias = (|out - mean|^2 - |out - c'|^2) / 2 + terms that are the
same for every row, so the largest logit is the nearest centroid. Right outputs carry their planned tokens,
wrong ones carry decoys that occur nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from references import bf16_to_float64, float_to_bf16

Floats = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

DECOY = 1 << 24  # tokens from here on are decoys; vocabularies end below
EDGE = 1e-13  # a value this close to a rounding boundary could round otherwise on another machine
PAD_BIAS = np.float32(-1e4)  # below every logit: |head . out| < D
EQUAL = 1e-9  # outputs that differ by no more are the same output


@dataclass(frozen=True)
class Head:
    """``head`` bf16 bits [V,D], ``head_bias`` float32 [V], ``head_token`` int32 [V]."""

    head: npt.NDArray[np.uint16]
    head_bias: npt.NDArray[np.float32]
    head_token: I32

    @cached_property
    def weights(self) -> Floats:
        """``head`` in float64."""
        return bf16_to_float64(self.head)

    def logits(self, out: Floats) -> Floats:
        """Logits [m,V] in float64 of outputs [m,D]."""
        return out @ self.weights.T + self.head_bias.astype(np.float64)

    def predict(self, out: Floats) -> I32:
        """Tokens [m] of outputs [m,D] rounded to bf16; ties go to the lowest row."""
        token: I32 = self.head_token[self.logits(bf16_to_float64(float_to_bf16(out))).argmax(axis=1)]
        return token

    def padded(self, rows: int) -> Head:
        """The same head with ``rows`` rows; the rows added are zero and never win."""
        more = rows - len(self.head_bias)
        return Head(
            np.pad(self.head, ((0, more), (0, 0))),
            np.pad(self.head_bias, (0, more), constant_values=PAD_BIAS),
            np.pad(self.head_token, (0, more), constant_values=-1),
        )


def build_head(right: Floats, planned: I32, wrong: Floats) -> Head | None:
    """The head of right outputs [n,D] with their tokens [n], and of wrong outputs [m,D].

    Equal rows are dropped, the first stays. None where a value lies within `EDGE` of a rounding boundary, or
    where equal right outputs have different tokens.
    """
    centroids = np.concatenate([right, wrong])
    mean = centroids.mean(axis=0)
    offset = centroids - mean
    head = float_to_bf16(offset - EDGE)
    if (head != float_to_bf16(offset + EDGE)).any():
        return None
    square = ((bf16_to_float64(head) + mean) ** 2).sum(axis=1) / 2
    bias = (-square).astype(np.float32)
    if ((square * (1 - EDGE)).astype(np.float32) != (square * (1 + EDGE)).astype(np.float32)).any():
        return None
    token = np.concatenate([planned, DECOY + np.arange(len(wrong))]).astype(np.int32)
    firsts: dict[bytes, int] = {}
    for at in range(len(head)):
        earlier = firsts.setdefault(head[at].tobytes() + bias[at].tobytes(), at)
        if at < len(planned) and token[earlier] != token[at]:
            return None
    first = np.fromiter(firsts.values(), np.intp)
    return Head(head[first], bias[first], token[first])


def margins(head: Head, right: Floats, planned: I32, allowed: Floats) -> tuple[Floats, Floats]:
    """How far each right output is from another token's row.

    ``right`` and ``allowed`` [n,D]. Returns the margin [n,V] (own logit minus each row's; +inf for rows of
    the same token) and its ratio [n,V] to sum |c - c'| allowed(out): 1 or more means that no output within
    the allowance can flip it.
    """
    logits = head.logits(right)
    same = head.head_token[None] == planned[:, None]
    own = np.where(same, logits, -np.inf).argmax(axis=1)
    margin = np.where(same, np.inf, logits[np.arange(len(right)), own][:, None] - logits)
    reach = np.stack([np.abs(head.weights[o] - head.weights) @ a for o, a in zip(own, allowed, strict=True)])
    with np.errstate(divide="ignore"):
        ratio = np.where(same, np.inf, margin / np.where(reach == 0.0, 1.0, reach))
    return margin, ratio


def margin_used(head: Head, margin: Floats, right: Floats, emulated: Floats) -> Floats:
    """Largest share [n] of its margin that outputs ``emulated`` [s,n,D] take from each right output [n,D]."""
    rows = np.arange(len(right))
    own = np.isinf(margin)
    before = head.logits(right)
    used = np.zeros(len(right))
    chosen = np.where(own, before, -np.inf).argmax(axis=1)
    for out in emulated:
        change = head.logits(out) - before
        lost = change - change[rows, chosen][:, None]
        used = np.maximum(used, np.where(own, 0.0, lost / np.where(own, 1.0, margin)).max(axis=1))
    return used
