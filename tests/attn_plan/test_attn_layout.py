"""Where the tensor-core attention keeps its data: chunks, fragments, pages, by exact quotients."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest


def test_quotients_are_exact(plan: ctypes.CDLL) -> None:
    """By floats and by integers, around multiples and around the place where one gives way to the other."""
    rng = np.random.default_rng(0)
    numbers = [0, 1, 2, 3, 131, 132, 2**12, 2**23 - 2, 2**23 - 1, 2**23, 2**23 + 1, 2**31, 2**40 + 1]
    pairs = [(a, b) for a in numbers for b in numbers if b > 0]
    for _ in range(20000):
        b = int(2 ** rng.uniform(0, 24))
        times = int(2 ** rng.uniform(0, 24)) // b
        pairs += [(max(times * b + d, 0), b) for d in (-1, 0, 1)]
    for a, b in pairs:
        assert plan.quotient(ctypes.c_int64(a), ctypes.c_int64(b)) == a // b


def test_chunks_meet_no_bank_twice(plan: ctypes.CDLL) -> None:
    """Eight rows of one chunk, as ldmatrix reads them, and the chunks of a row, as copies write them."""
    for first in range(0, 64, 8):
        for chunk in range(8):
            assert len({plan.chunk_offset(first + r, chunk) // 16 % 8 for r in range(8)}) == 8
        for row in range(first, first + 8):
            assert sorted(plan.chunk_offset(row, c) - row * 128 for c in range(8)) == list(range(0, 128, 16))


@pytest.mark.parametrize(
    ("name", "rows"), [("mma_fragment", 64), ("mma_fragment", 32), ("wgmma_fragment", 64)]
)
def test_fragments_fill_a_record(plan: ctypes.CDLL, name: str, rows: int) -> None:
    """Every fragment of a record is written by one thread and found at one place."""
    function = getattr(plan, name)
    found = np.zeros(rows * 512 // 4, int)
    for block in range(rows // 16):
        for group in range(64):
            first = function(block, group)
            assert first % 32 == 0  # a warp reads and writes 512 bytes in a row
            found[first : first + 32] += 1
    assert (found == 1).all()


def test_fragments_are_where_the_threads_put_them(plan: ctypes.CDLL) -> None:
    """The rows and columns are those of the accumulators of thread t, whose i-th fragment is written.

    mma.sync: to 256 i + t; wgmma: to 32 i + lane of the warp's 1,024.
    """
    for thread in range(256):
        warp, lane = thread // 32, thread % 32
        for i in range(32):
            # mma.sync: fragment (row block, column block) = (i / 8, i % 8), the warp has columns 64 warp ..
            block, column = i // 8, warp * 64 + i % 8 * 8
            assert plan.mma_fragment(block, column // 8) + lane == 256 * i + thread
            # wgmma: warp w of a warpgroup has rows 16 w .., the group columns 256 g ..
            block, column = warp % 4, warp // 4 * 256 + i * 8
            assert plan.wgmma_fragment(block, column // 8) + lane == 1024 * warp + 32 * i + lane


def test_pages_are_found_without_division(plan: ctypes.CDLL) -> None:
    """Exact for every page size and slot."""
    rng = np.random.default_rng(0)
    for size in range(1, 257):
        edges = [0, 1, size - 1, size, size + 1, 2**31 - 1, 2**31 - size, (2**31 - 1) // size * size]
        for slot in [*edges, *rng.integers(0, 2**31, 60).tolist()]:
            assert plan.page_of(ctypes.c_int64(slot), size) == slot // size
