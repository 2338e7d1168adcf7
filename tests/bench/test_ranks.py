"""The rank test against published values, the interval against what it must contain."""

from __future__ import annotations

import random
from statistics import NormalDist

import pytest

from harness.bench.ranks import mann_whitney, ratio_of
from harness.bench.verdict import decide
from harness.bench_results import quantile
from harness.compare_results import Standing

MALES, FEMALES = [19, 22, 16, 29, 24], [20, 11, 17, 12]  # the example of scipy.stats.mannwhitneyu


def test_the_published_example() -> None:
    assert mann_whitney(FEMALES, MALES).u == 17
    assert mann_whitney(FEMALES, MALES).p == pytest.approx(1 / 9)
    assert mann_whitney(MALES, FEMALES).p == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("n", "m", "u", "p"),
    # Two-sided exact probabilities: twice the tail of the published tables of Mann and Whitney (1947).
    [(3, 3, 0, 0.1), (4, 4, 0, 2 / 70), (4, 4, 1, 4 / 70), (5, 5, 2, 2 * 4 / 252), (6, 6, 5, 2 * 19 / 924)],
)
def test_exact_tails(n: int, m: int, u: int, p: float) -> None:
    first, second = list(range(n, 2 * n)), [-1.0 - i for i in range(m)]
    # Move the last of the second sample up past `u` of the first.
    full, rest = divmod(u, n)
    for i in range(full):
        second[i] = 1000.0 + i
    if rest:
        second[full] = n + rest - 0.5
    found = mann_whitney(first, second)
    assert found.u == u
    assert found.p == pytest.approx(p)


def test_the_normal_approximation_with_ties() -> None:
    # Ranks 2 2 2 5 5 5 7 8, two ties of three: the variance is nm/12 (N + 1 - sum (t^3 - t) / (N (N - 1))).
    first, second = [1, 1, 2, 2], [1, 2, 3, 4]
    found = mann_whitney(first, second)
    assert found.u == 12.0
    sigma = (16 / 12 * (9 - (24 + 24) / 56)) ** 0.5
    assert found.p == pytest.approx(2 * NormalDist().cdf(-(4 - 0.5) / sigma))


def test_the_exact_and_the_approximate_agree_at_the_border() -> None:
    draw = random.Random(5)
    first = [draw.random() for _ in range(20)]
    second = [draw.random() + 0.2 for _ in range(20)]
    exact = mann_whitney(first, second).p
    tied = mann_whitney([*first, 5.0], [*second, 5.0]).p  # ties and size ask for the approximation
    assert exact == pytest.approx(tied, rel=0.35)


def test_empty_and_constant_samples_decide_nothing() -> None:
    assert mann_whitney([], [1.0]).p == 1.0
    assert mann_whitney([2.0] * 40, [2.0] * 40).p == 1.0


def test_the_rate_of_false_alarms_is_that_of_the_test() -> None:
    draw = random.Random(1)
    samples = [
        ([draw.gauss(10, 1) for _ in range(30)], [draw.gauss(10, 1) for _ in range(30)]) for _ in range(400)
    ]
    alarms = sum(mann_whitney(a, b).p < 0.05 for a, b in samples)
    assert 6 <= alarms <= 36  # 20 expected
    held = sum(ratio_of(a, b, 0.95).low <= 1 <= ratio_of(a, b, 0.95).high for a, b in samples[:100])
    assert held >= 88


def around(centre: float, count: int = 40, spread: float = 0.002, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [centre * (1 + draw.gauss(0, spread)) for _ in range(count)]


@pytest.mark.parametrize(
    ("second", "spread", "standing"),
    [
        (1.10, 0.002, Standing.SLOWER),
        (0.90, 0.002, Standing.FASTER),
        (1.00, 0.002, Standing.SAME),
        (1.01, 0.002, Standing.SAME),  # seen, but below the minimum effect
        (1.00, 0.300, Standing.UNDECIDED),
        (1.01, 0.030, Standing.UNDECIDED),
    ],
)
def test_verdicts(second: float, spread: float, standing: Standing) -> None:
    found = decide(around(1.0, spread=spread), around(second, spread=spread, seed=1), 0.02)
    assert found.standing is standing
    assert found.ratio.low <= found.ratio.estimate <= found.ratio.high


def test_quantiles() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([float(i) for i in range(1, 41)], 0.95) == 38.0
    assert quantile([7.0], 0.95) == 7.0
