"""How tree_build counts candidates by cost, against convolutions in NumPy.

A count that is too small makes the threshold too low: the tree is right, and slow. No case sees it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

F32 = np.float32
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
PAIR_BINS, COST_BINS = 32, 64
PAIR_BUDGET, BUDGETS = 128, (1, 3, 100, 512, 1024)


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory, compile_part: Callable[..., ctypes.CDLL]) -> ctypes.CDLL:
    library = compile_part("tree_build/counts.cpp", tmp_path_factory.mktemp("counts"))
    assert library.emu_configure(b"forward", ctypes.c_uint64(0), 0xFF, 1) == 0  # shared memory is not zero
    return library


def whole_bins(costs: Floats, per_unit: np.float32, bins: int) -> Ints:
    """Products rounded up to float32, then to whole bins; ``bins`` for what is beyond."""
    exact = costs.astype(np.float64) * float(per_unit)
    product = exact.astype(F32)
    product = np.where(product < exact, np.nextafter(product, F32(np.inf)), product)
    return np.ceil(np.minimum(product, F32(bins))).astype(np.int64)


def first_costs(rows: Floats) -> Floats:
    """Costs of ranks 0 in the order of a scan over 32 lanes, float32."""
    cost = np.full(32, np.inf, F32)
    cost[: len(rows)] = np.abs(rows[:, 0])
    for step in (1, 2, 4, 8, 16):
        cost[step:] = cost[step:] + cost[:-step].copy()
    return cost[: len(rows)]


def pairs_up_to(rows: Floats, per_unit: np.float32) -> Ints:
    """Candidates with at most two ranks that are not 0, by the depth of the last of these."""
    first = whole_bins(first_costs(rows), per_unit, PAIR_BINS)
    totals, before = np.zeros((2, PAIR_BINS), np.int64)
    for depth, row in enumerate(rows):
        bins = whole_bins(row[0] - row[1:], per_unit, PAIR_BINS)
        ranks = np.bincount(bins, minlength=PAIR_BINS + 1)[:PAIR_BINS]
        paths = np.cumsum(ranks) + np.convolve(ranks, before)[:PAIR_BINS] + (depth == 0)
        for by in first[depth:]:
            totals[by:] += paths[: max(PAIR_BINS - by, 0)]
        before += np.cumsum(ranks)
    return totals


def all_up_to(rows: Floats, per_unit: np.float32) -> Ints:
    """All candidates, depth by depth."""
    first = whole_bins(first_costs(rows), per_unit, COST_BINS)
    totals = np.zeros(COST_BINS, np.int64)
    ways = np.zeros(COST_BINS, np.int64)
    ways[0] = 1
    for row, step in zip(rows, np.diff(first, prepend=0), strict=True):
        bins = np.minimum(whole_bins(row[0] - row, per_unit, COST_BINS) + step, COST_BINS)
        ranks = np.bincount(bins, minlength=COST_BINS + 1)[:COST_BINS]
        ways = np.minimum(np.convolve(ways, ranks)[:COST_BINS], 10**6)
        totals += ways
    return np.cumsum(totals)


def rows_of(depths: int, ranks: int, spread: float) -> Floats:
    """Sorted log-probs; wide ones end in -inf in the lower half."""
    random = np.random.default_rng(1000 * depths + ranks)
    rows = -np.sort(spread * random.exponential(size=(depths, ranks)) ** 2, axis=1).astype(F32)
    if ranks < 33:
        rows -= rows[:, :1]  # rank 0 costs nothing: pairs reach the last bins
    if spread > 1:
        rows[depths // 2 :, ranks // 2 + 1 :] = -np.inf
    return rows


@pytest.mark.parametrize("depths", [1, 2, 15, 16, 32])
@pytest.mark.parametrize("ranks", [1, 2, 31, 33, 64, 128])
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3, 3.0])
def test_pairs(part: ctypes.CDLL, depths: int, ranks: int, spread: float) -> None:
    rows = rows_of(depths, ranks, spread)
    at = rows.ctypes.data_as(ctypes.c_void_p)
    for per_unit in (F32(0.7), F32(3.1), F32(12), F32(40)):
        got = np.zeros(PAIR_BINS, np.int32)
        part.count_pairs(at, depths, ranks, ctypes.c_float(per_unit), got.ctypes.data_as(ctypes.c_void_p))
        expected = pairs_up_to(rows, per_unit)
        assert np.array_equal(np.minimum(got, PAIR_BUDGET), np.minimum(expected, PAIR_BUDGET)), per_unit


@pytest.mark.parametrize("threads", [512, 1024])
@pytest.mark.parametrize("depths", [1, 2, 15, 16, 32])
@pytest.mark.parametrize("ranks", [1, 33, 300, 1024])
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_all(part: ctypes.CDLL, threads: int, depths: int, ranks: int, spread: float) -> None:
    rows = rows_of(depths, ranks, spread)
    at = rows.ctypes.data_as(ctypes.c_void_p)
    for per_unit in (F32(0.7), F32(8), F32(90)):
        expected = np.append(all_up_to(rows, per_unit), 10**9)
        for budget in BUDGETS:
            got = part.count_all(at, depths, ranks, ctypes.c_float(per_unit), budget, threads)
            assert got == np.argmax(expected >= budget), (per_unit, budget)
