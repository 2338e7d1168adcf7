"""A pool whose pages lie far apart: offsets pass 2^31 and 2^32, while only the pages themselves are touched.

The whole range is reserved, but nothing between the pages is written or looked at, so on the host it costs
address space alone. Each page has a guard on either side.
"""

from __future__ import annotations

import numpy as np

from harness.case import AnyArray
from harness.memory.buffers import ALIGN, GUARD, Bytes, Memory, fence


class SpreadPages:
    """``pages`` pieces of ``page_bytes``, ``stride`` bytes from one start to the next, in reserved memory.

    Used like an `Arena`: `stage`, `seal`, the target's call, `fetch`, then look.
    """

    def __init__(self, memory: Memory, name: str, pages: int, page_bytes: int, stride: int) -> None:
        if stride < page_bytes + 2 * GUARD:
            raise ValueError(f"stride: got {stride}, want room for a page of {page_bytes} and its guards")
        self._memory, self._name, self._stride, self._page_bytes = memory, name, stride, page_bytes
        self._block = memory.reserve((pages - 1) * stride + page_bytes + 2 * GUARD + ALIGN)
        self._base = -(-self._block.address // ALIGN) * ALIGN
        self._image: Bytes = np.tile(fence(GUARD + page_bytes + GUARD), (pages, 1))
        self._after: Bytes = self._image

    @property
    def address(self) -> int:
        """Where the first page stands."""
        return self._base + GUARD

    def stage(self, pool: AnyArray) -> None:
        """Contents [pages, ..] of the pages."""
        raw = np.ascontiguousarray(pool).reshape(len(self._image), -1).view(np.uint8)
        self._image[:, GUARD : GUARD + self._page_bytes] = raw

    def seal(self) -> None:
        """Copy pages and guards into the target's memory."""
        for g, piece in enumerate(self._image):
            self._memory.upload(self._base + g * self._stride, piece)

    def fetch(self) -> None:
        """Bring pages and guards back."""
        self._after = np.empty_like(self._image)
        for g, piece in enumerate(self._after):
            self._memory.download(self._base + g * self._stride, piece)

    def forbid(self, forbidden: bool) -> None:
        """While the target runs: an address sanitizer, where one is loaded, traps on the guards."""
        starts = [self._base + g * self._stride for g in range(len(self._image))]
        after = GUARD + self._page_bytes
        self._memory.forbid([(s + at, GUARD) for s in starts for at in (0, after)], forbidden)

    def read(self, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> AnyArray:
        """The pages as the target left them, side by side."""
        pages = self._after[:, GUARD : GUARD + self._page_bytes]
        left: AnyArray = np.ascontiguousarray(pages).view(dtype).reshape(shape)
        return left

    def changed(self) -> bool:
        """True where the bytes of a page are not those staged."""
        part = slice(GUARD, GUARD + self._page_bytes)
        return not np.array_equal(self._after[:, part], self._image[:, part])

    def guard_hits(self) -> tuple[str, ...]:
        """One line per damaged guard."""
        lines = []
        wrong = self._after != self._image
        for g, page in enumerate(wrong):
            for side, part in (("before", page[:GUARD]), ("after", page[GUARD + self._page_bytes :])):
                if part.any():
                    lines.append(f"{self._name}: {int(part.sum())} bytes changed {side} page {g}")
        return tuple(lines)
