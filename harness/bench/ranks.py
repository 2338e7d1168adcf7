"""Two samples of times: a rank test (Mann-Whitney U) and the interval of the ratio that goes with it.

No normality is assumed; a few slow outliers move neither. Only the standard library is used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

EXACT_LIMIT = 400  # pairs up to which the distribution of U is counted out, where no two values are equal


@dataclass(frozen=True)
class RankTest:
    """``u`` counts pairs in which the second sample is larger (ties half); ``p`` is two-sided."""

    u: float
    p: float


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """Exact for small samples without ties, else the normal approximation with ties and continuity."""
    n, m = len(first), len(second)
    if not n or not m:
        return RankTest(0.0, 1.0)
    ordered = sorted([*((x, 0) for x in first), *((y, 1) for y in second)])
    counts = Counter(value for value, _ in ordered)
    rank_sum, before = 0.0, 0
    rank = {}
    for value, many in sorted(counts.items()):
        rank[value] = before + (many + 1) / 2
        before += many
    rank_sum = sum(rank[value] for value, which in ordered if which == 1)
    u = rank_sum - m * (m + 1) / 2
    if n * m <= EXACT_LIMIT and len(counts) == n + m:
        smaller = round(min(u, n * m - u))
        below = sum(_ways(n, m, k) for k in range(smaller + 1))
        return RankTest(u, min(1.0, 2 * below / math.comb(n + m, n)))
    sigma = math.sqrt(_variance(n, m, list(counts.values())))
    if sigma == 0:
        return RankTest(u, 1.0)
    z = max(0.0, abs(u - n * m / 2) - 0.5) / sigma
    return RankTest(u, min(1.0, 2 * NormalDist().cdf(-z)))


@dataclass(frozen=True)
class Ratio:
    """How many times as long the second sample takes: estimate (Hodges-Lehmann) and its interval."""

    estimate: float
    low: float
    high: float


def ratio_of(first: Sequence[float], second: Sequence[float], confidence: float = 0.99) -> Ratio:
    """The median of all pairwise ratios, between the ranks that the U test would not refuse."""
    ratios = sorted(y / x for x in first for y in second)
    n, m = len(first), len(second)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    spread = z * math.sqrt(n * m * (n + m + 1) / 12)
    cut = max(0, min(math.floor(n * m / 2 - spread), (len(ratios) - 1) // 2))
    half = len(ratios) // 2
    middle = ratios[half] if len(ratios) % 2 else (ratios[half - 1] + ratios[half]) / 2
    return Ratio(middle, ratios[cut], ratios[-1 - cut])


def _variance(n: int, m: int, ties: list[int]) -> float:
    total = n + m
    if total < 2:
        return 0.0
    tied = sum(t**3 - t for t in ties) / (total * (total - 1))
    return n * m / 12 * (total + 1 - tied)


@cache
def _ways(n: int, m: int, u: int) -> int:
    """Arrangements of ``n`` and ``m`` values in which ``u`` pairs stand the other way round."""
    if u < 0 or n < 0 or m < 0:
        return 0
    if u == 0:
        return 1
    if n == 0 or m == 0:
        return 0
    return _ways(n - 1, m, u - m) + _ways(n, m - 1, u)
