"""The page of a slot is the quotient for every page size and slot that a call may have."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np

LAST = 2**31 - 1


def test_every_page_size(compile_part: Callable[..., ctypes.CDLL], tmp_path: Path) -> None:
    wrong_pages = compile_part("kv_commit/page_slots.cpp", tmp_path).wrong_pages
    anywhere = np.random.default_rng(0).integers(0, LAST, 1000, endpoint=True)
    for size in range(1, 257):
        pages = np.unique(np.concatenate([anywhere[:100] // size, [0, 1, LAST // size]])) * size
        slots = np.concatenate([anywhere, pages, pages - 1, pages + size - 1])
        slots = slots[(slots >= 0) & (slots <= LAST)].astype(np.int32)
        pointer = slots.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        assert wrong_pages(size, pointer, len(slots)) == 0, size
