"""How the tensor-core attention cuts its work, on the host (docs/attention.md)."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

ROWS_AND_KEYS = [(64, 64), (64, 32), (32, 32)]  # wgmma, mma.sync with 227 KB, with 99 KB


class Cut:
    """One cut of the work of some requests."""

    def __init__(
        self,
        plan: ctypes.CDLL,
        prefix: list[int],
        live: list[int],
        heads: int,
        shape: tuple[int, int],
        workers: int,
    ) -> None:
        self.plan, self.prefix, self.live, self.heads, self.workers = plan, prefix, live, heads, workers
        self.rows, self.keys = shape
        self.arrays = [(ctypes.c_int64 * len(v))(*v) for v in (prefix, live)]
        self.common = (*self.arrays, ctypes.c_int64(heads), self.rows, self.keys, workers)

    def pieces(self, worker: int) -> list[list[int]]:
        """(request, tile, first unit, last unit, whole, slot) of a worker."""
        out = (ctypes.c_int64 * (6 * 4096))()
        count = self.plan.walk(len(self.prefix), *self.common, ctypes.c_int64(worker), out)
        return [list(out[6 * i : 6 * i + 6]) for i in range(count)]

    def sharers(self, request: int, tile: int, worker: int) -> int:
        """How many workers share a tile, as the one that opens it says."""
        return int(
            self.plan.sharers(
                len(self.prefix), *self.common, request, ctypes.c_int64(tile), ctypes.c_int64(worker)
            )
        )

    def units(self, request: int) -> tuple[int, int, int, int]:
        """Rows of a tile, tiles, prefix units, estimated tail units of a request."""
        out = (ctypes.c_int64 * 4)()
        self.plan.units(
            len(self.prefix), ctypes.c_int64(self.prefix[request]), ctypes.c_int64(self.live[request]),
            ctypes.c_int64(self.heads), self.rows, self.keys, self.workers, out,
        )  # fmt: skip
        return out[0], out[1], out[2], out[3]

    def most_units(self) -> int:
        """Units of the worker that has most."""
        return max(sum(p[3] - p[2] for p in self.pieces(worker)) for worker in range(self.workers))


def random_cuts(plan: ctypes.CDLL, count: int, seed: int) -> list[Cut]:
    """Ragged batches and single requests of many sizes."""
    rng = np.random.default_rng(seed)
    cuts = []
    for _ in range(count):
        batch = int(rng.choice([1, 1, 1, 2, 3, 9]))
        longest = int(rng.choice([0, 1, 70, 1000, 9000]))
        nodes = int(rng.choice([1, 17, 65, 257]))
        prefix = rng.integers(0, longest + 1, batch).tolist()
        live = rng.integers(-1, nodes + 1, batch).tolist()
        if batch == 1:
            live = [nodes]
        workers = int(rng.choice([1, 2, 7, 84, 132, 188, 300]))
        shape = ROWS_AND_KEYS[int(rng.integers(3))]
        cuts.append(Cut(plan, prefix, live, int(rng.choice([1, 3, 8, 16, 64, 128])), shape, workers))
    return cuts


@pytest.mark.parametrize("seed", range(4))
def test_every_unit_is_done_once(plan: ctypes.CDLL, seed: int) -> None:
    """Pieces cover the units of each tile once, in order of the workers, and no slot is used twice."""
    for cut in random_cuts(plan, 60, seed):
        done: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
        for worker in range(cut.workers):
            pieces = cut.pieces(worker)
            slots = [piece[5] for piece in pieces if not piece[4]]
            assert len(slots) == len(set(slots)) and set(slots) <= {2 * worker, 2 * worker + 1}
            for piece in pieces:
                done[piece[0], piece[1]].append([worker, *piece[2:]])
        expected = set()
        for request in range(len(cut.prefix)):
            rows, tiles, prefix_units, tail_units = cut.units(request)
            live = max(cut.live[request], 0)
            assert rows <= cut.rows and rows % 16 == 0
            assert tiles == -(-live * cut.heads // rows)
            if tiles:
                assert prefix_units == -(-cut.prefix[request] // cut.keys) and tail_units >= 1
            for tile in range(tiles):
                expected.add((request, tile))
                parts = done[request, tile]
                assert parts[0][1] == 0 and parts[-1][2] == prefix_units + tail_units
                assert all(a[2] == b[1] and a[0] + 1 == b[0] for a, b in pairwise(parts))
                # The merge must find the same workers, and the slots that they wrote.
                first, last = parts[0][0], parts[-1][0]
                assert cut.sharers(request, tile, first) == last - first + 1
                assert [part[3] for part in parts] == [int(first == last)] * len(parts)
                if first < last:
                    assert [part[4] for part in parts] == [
                        2 * worker + int(worker == first) for worker in range(first, last + 1)
                    ]
        assert set(done) == expected


def test_shares_are_even(plan: ctypes.CDLL) -> None:
    """No worker has more than a few units beyond the mean where there is enough work."""
    for rows_live, prefix in ((17, 32768), (65, 8192), (257, 8192), (1025, 1024)):
        for heads in (8, 16, 64):
            cut = Cut(plan, [prefix], [rows_live], heads, (64, 64), 132)
            _, tiles, prefix_units, tail_units = cut.units(0)
            mean = tiles * (prefix_units + tail_units + 2) / 132
            assert cut.most_units() <= mean * 1.07 + 2


@pytest.mark.parametrize(
    ("heads", "nodes", "prefix", "rows"),
    [
        (8, 17, 1024, 32),  # 85 workers with a unit each, not 51
        (16, 17, 1024, 48),  # 32 rows would leave two units to some
        (8, 17, 8192, 48),  # as many tiles as with 64 rows, but no small one
        (16, 65, 8192, 64),
        (64, 257, 1024, 64),  # more tiles than workers
        (8, 4, 8192, 32),  # one tile
        (8, 1, 1024, 32),  # fewer rows than the smallest tile
    ],
)
def test_tiles_have_fewer_rows_where_that_is_free(
    plan: ctypes.CDLL, heads: int, nodes: int, prefix: int, rows: int
) -> None:
    """Short work takes small tiles, long work takes the largest; no worker has more units for it."""
    cut = Cut(plan, [prefix], [nodes], heads, (64, 64), 132)
    assert cut.units(0)[0] == rows
    units, full_tiles = -(-prefix // 64) + 1, -(-heads * nodes // 64)
    if full_tiles <= 132:
        assert cut.most_units() <= -(-units // (132 // full_tiles))


def test_requests_of_a_batch_have_full_tiles(plan: ctypes.CDLL) -> None:
    """The line of many is drawn before anybody knows who has most to do."""
    assert Cut(plan, [1024, 1024], [17, 17], 8, (64, 64), 132).units(0)[0] == 64


def test_tiles_that_fill_the_workers_are_not_cut(plan: ctypes.CDLL) -> None:
    """257 tiles on 132 workers: two whole tiles each, nothing to merge."""
    cut = Cut(plan, [1024], [257], 64, (64, 64), 132)
    assert all(piece[4] for worker in range(132) for piece in cut.pieces(worker))


@pytest.mark.parametrize(
    ("heads", "nodes", "prefix", "alone"),
    [
        (8, 17, 8192, True),  # 43 workers a tile with three units would leave one of 44 idle
        (8, 17, 32768, True),
        (8, 17, 1024, True),  # a unit each
        (8, 17, 8256, True),  # 129 units before it: the tail starts with a worker anyhow
        (8, 17, 8320, False),  # no worker would be idle
        (16, 17, 8192, False),  # it would take a worker more than there are
    ],
)
def test_a_tail_has_a_worker_of_its_own_where_that_is_free(
    plan: ctypes.CDLL, heads: int, nodes: int, prefix: int, alone: bool
) -> None:
    """The tail's worker does nothing else, and nobody does more for it."""
    cut = Cut(plan, [prefix], [nodes], heads, (64, 64), 132)
    _, tiles, prefix_units, tail_units = cut.units(0)
    ends = [p for worker in range(132) for p in cut.pieces(worker) if p[3] == prefix_units + tail_units]
    assert len(ends) == tiles
    assert all((first == prefix_units) == alone for _, _, first, *_ in ends)
    assert cut.most_units() == -(-(prefix_units + tail_units) // (132 // tiles))


def test_a_tail_may_have_any_number_of_units(plan: ctypes.CDLL) -> None:
    """Estimated units map onto the actual ones without gap or overlap."""
    for estimated in range(1, 12):
        for actual in range(40):
            edges = [
                plan.tail_unit(ctypes.c_int64(x), ctypes.c_int64(estimated), ctypes.c_int64(actual))
                for x in range(estimated + 1)
            ]
            assert edges[0] == 0 and edges[-1] == actual and edges == sorted(edges)


def test_workers_suffice_for_what_the_host_knows(plan: ctypes.CDLL) -> None:
    """Fewer workers than multiprocessors only where no more units can exist."""
    for nodes, heads, slots in ((1, 1, 1), (17, 8, 64), (65, 16, 1024)):
        most = plan.useful_workers(
            ctypes.c_int64(1),
            ctypes.c_int64(nodes),
            ctypes.c_int64(heads),
            ctypes.c_int64(slots),
            64,
            64,
            132,
        )
        cut = Cut(plan, [slots], [nodes], heads, (32, 64), 132)  # the smallest tiles that there can be
        _, tiles, prefix_units, tail_units = cut.units(0)
        assert most == min(132, tiles * (prefix_units + tail_units + 2))


@pytest.mark.parametrize(
    ("batch", "nodes", "heads", "slots", "small"),
    [
        (1, 17, 8, 29 * 64, True),  # 3 tiles of 29 units: two thirds of 132 are 88
        (1, 17, 8, 29 * 64 + 1, False),
        (1, 16, 8, 44 * 64, True),  # 2 tiles
        (1, 16, 8, 44 * 64 + 1, False),
        (1, 24, 8, 44 * 64, False),  # 3 tiles
        (8, 8, 8, 11 * 64, True),
        (9, 8, 8, 10 * 64, False),
        (1, 1, 1, 1, True),
    ],
)
def test_small_tiles_for_work_that_leaves_a_third_idle(
    plan: ctypes.CDLL, batch: int, nodes: int, heads: int, slots: int, small: bool
) -> None:
    """Both sides of the edge, by each of the numbers that it depends on."""
    numbers = [ctypes.c_int64(x) for x in (batch, nodes, heads, slots)]
    assert bool(plan.prefers_small_tiles(*numbers, 132)) == small
