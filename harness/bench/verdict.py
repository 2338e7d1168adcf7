"""Is the second target faster, slower, the same? A rank test and a minimum effect have to agree.

Where they do not, the answer is that it is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.bench.ranks import Ratio, mann_whitney, ratio_of
from harness.case import AnyArray
from harness.compare_results import Difference, Standing
from harness.contract import KERNELS, Array
from harness.observation import Observation

ALPHA = 0.01  # chance of a difference that is none, per comparison


@dataclass(frozen=True)
class Decision:
    """A standing with its figures."""

    standing: Standing
    reason: str
    ratio: Ratio
    p: float


def decide(first: Sequence[float], second: Sequence[float], min_effect: float) -> Decision:
    """FASTER, SLOWER: the test refuses equality and the estimate is off by ``min_effect`` (a part) or more.

    SAME: the whole interval of the ratio lies within the minimum effect. UNDECIDED: anything else.
    """
    ratio, p = ratio_of(first, second), mann_whitney(first, second).p
    effect = ratio.estimate - 1
    text = f"{effect:+.1%} ({ratio.low - 1:+.1%} to {ratio.high - 1:+.1%}), p {p:.2g}"
    if p < ALPHA and abs(effect) >= min_effect:
        return Decision(Standing.SLOWER if effect > 0 else Standing.FASTER, text, ratio, p)
    if max(abs(ratio.low - 1), abs(ratio.high - 1)) <= min_effect:
        return Decision(Standing.SAME, text, ratio, p)
    return Decision(Standing.UNDECIDED, text, ratio, p)


def differences(kernel: str, first: Observation, second: Observation) -> tuple[Difference, ...]:
    """Arrays in which the first buffers of two targets differ in a bit, in the contract's order."""
    found = []
    for array in KERNELS[kernel].arrays:
        one, other = _of(first.rounds, array.name), _of(second.rounds, array.name)
        if one is None or other is None or one.shape != other.shape or one.tobytes() == other.tobytes():
            continue
        found.append(_difference(array, one, other))
    return tuple(found)


def _of(rounds: Sequence[Mapping[str, AnyArray]], name: str) -> AnyArray | None:
    return rounds[0].get(name) if rounds else None


def _difference(array: Array, one: AnyArray, other: AnyArray) -> Difference:
    bits = one.view(f"u{one.dtype.itemsize}") != other.view(f"u{other.dtype.itemsize}")
    first = tuple(int(i) for i in np.unravel_index(int(bits.argmax()), bits.shape))
    largest: float | None = None
    if array.dtype in ("bf16", "f32"):
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(_values(array, one) - _values(array, other))
        largest = float(gap[np.isfinite(gap)].max(initial=0.0))
    return Difference(array.name, int(bits.sum()), bits.size, largest, first)


def _values(array: Array, values: AnyArray) -> AnyArray:
    if array.dtype == "bf16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float64)
