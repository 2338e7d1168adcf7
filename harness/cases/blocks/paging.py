"""Shuffled page tables: which page of the pool holds which slots of which request.

Slot s of request b stands in row ``block_table[b, s // S] * S + s % S`` of the pool seen as [G*S, ..].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.draw import Draw


def pages(
    draw: Draw,
    prefix_len: Sequence[int],
    tail: Sequence[int] | int,
    page_slots: int,
    *,
    shared: int = 0,
    spare_pages: int = 2,
    spare_entries: int = 2,
) -> tuple[npt.NDArray[np.int32], int]:
    """``block_table`` int32 [B,M] and the number of pages G, with pages in random order.

    Slots below ``prefix_len[b] + tail[b]`` of request b are mapped (``tail``: one number, or one for each
    request; 0 marks an inactive request, of which nothing is mapped). Every page belongs to one request
    alone, but for the first ``shared`` pages, which all requests share as far as they lie wholly in their
    prefix. ``spare_pages`` pages of the pool belong to nobody. The entries past the mapped ones, at least
    ``spare_entries`` of them, are hostile: -1, far out of range, or a page of somebody.
    """
    tails = [tail] * len(prefix_len) if isinstance(tail, int) else list(tail)
    mapped = [-(-(p + t) // page_slots) if t else 0 for p, t in zip(prefix_len, tails, strict=True)]
    common = [min(shared, p // page_slots) if t else 0 for p, t in zip(prefix_len, tails, strict=True)]
    most = max(common, default=0)
    total = most + sum(m - c for m, c in zip(mapped, common, strict=True)) + spare_pages
    order = draw.permutation(total)
    width = max(1, max(mapped, default=0) + spare_entries)
    table = _hostile(draw, len(prefix_len), width, total)
    start = most
    for b, (m, c) in enumerate(zip(mapped, common, strict=True)):
        table[b, :c] = order[:c]
        table[b, c:m] = order[start : start + m - c]
        start += m - c
    return table, total


def rows(
    block_table: npt.NDArray[np.int32], request: int, first: int, count: int, page_slots: int
) -> npt.NDArray[np.int64]:
    """Pool rows int64 [count] of the slots ``first`` .. ``first + count - 1`` of one request."""
    slots = np.arange(first, first + count)
    index: npt.NDArray[np.int64] = block_table[request, slots // page_slots].astype(np.int64)
    return index * page_slots + slots % page_slots


def _hostile(draw: Draw, batch: int, width: int, total: int) -> npt.NDArray[np.int32]:
    """int32 [batch, width] of entries that must not be used: half of them are pages of somebody."""
    outside = np.array([-1, 2**31 - 1, -(2**31), total])[draw.below(4, (batch, width))]
    inside = draw.below(max(total, 1), (batch, width))
    return np.where(draw.chance(50, (batch, width)), inside, outside).astype(np.int32)
