"""kv_commit on the emulator, where what it guesses before its inputs are there is wrong."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.contract import KERNELS, OK
from harness.shapes import bind
from harness.targets.arguments import kernel_args
from references import kv_commit

I32 = np.int32
LAYERS, PAGES, SLOTS, ROW, PREFIX = 2, 50, 6, 48, 130
LAST = 2**31 - 1
Inputs = Mapping[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def part(compile_part: Callable[..., ctypes.CDLL], tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    # Unoptimized: a product that nobody needs is not checked otherwise.
    traps = ("-O0", "-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error")
    return compile_part("kv_commit/guess.cpp", tmp_path_factory.mktemp("guess"), *traps)


def inputs(slots: list[int]) -> Inputs:
    """Three requests: one moves ``slots``, one moves nothing, one is inactive; junk wherever none looks."""
    generator = np.random.default_rng(1)
    path = np.full((3, len(slots) + 2), LAST, I32)
    path[0, : len(slots) + 1] = [0, *slots]
    path[1, 0] = 0
    table = np.full((3, PAGES), -1, I32)
    table[:2] = generator.permutation(2 * PAGES).reshape(2, PAGES)
    return {
        "kv": generator.integers(0, 256, (LAYERS, 2 * PAGES, SLOTS, ROW), np.uint8),
        "block_table": table,
        "prefix_len": np.array([PREFIX, PREFIX + 1, 0], I32),
        "accept_index": path,
        "accept_len": np.array([len(slots), 0, -1], I32),
    }


def commit(part: ctypes.CDLL, given: Inputs, **layout: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The pool and new_len after one call; ``layout``: other strides in its arguments."""
    pool, new_len = given["kv"].copy(), np.full(3, -7, I32)
    bases = np.array([layer.ctypes.data for layer in pool], np.uint64)
    arrays = {**given, "layer_base": bases, "new_len": new_len}
    args = kernel_args(
        "kv_commit", lambda name: arrays[name].ctypes.data, bind(KERNELS["kv_commit"], given, {}), {}
    )
    for name, value in layout.items():
        setattr(args, name, value)
    assert part.ddtree_kv_commit(ctypes.byref(args), None, ctypes.c_uint64(0), None) == OK
    return pool, new_len


@pytest.mark.parametrize("slots", [[1, 2, 5, 7, 12], [3, 64, 160]], ids=["near", "beyond 32 pages"])
@pytest.mark.parametrize(
    "guess", [PREFIX, PREFIX - SLOTS, PREFIX + SLOTS, 0, -1, -(2**31), PAGES * SLOTS, LAST]
)
def test_only_what_is_read_later_counts(part: ctypes.CDLL, guess: int, slots: list[int]) -> None:
    given = inputs(slots)
    expected = kv_commit(**given)
    part.set_guess(guess)
    pool, new_len = commit(part, given)
    assert np.array_equal(pool, expected["kv"])
    assert np.array_equal(new_len, expected["new_len"])


def test_wide_strides_where_nothing_moves(part: ctypes.CDLL) -> None:
    """Pages 16 GiB apart: no lane may do more than wrap around on the junk that it holds."""
    given = {**inputs([1, 2]), "accept_len": np.array([2, 0, -1], I32)}
    part.set_guess(0)
    pool, new_len = commit(part, given, page_bytes=1 << 34, slot_bytes=1 << 61)
    assert np.array_equal(pool, given["kv"])
    assert new_len.tolist() == [PREFIX + 3, PREFIX + 2, 0]
