"""Pools whose pages lie far apart, so that offsets pass 2^31 and 2^32 while the pool itself is small.

The inputs are ordinary. The scalar ``page_stride`` asks for the layout where memory is laid out (the C ABI's
strides); a target that gets plain arrays sees a plain pool.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from harness.case import Value
from harness.shapes import shape_of

_ALIGN = 4096


def far_stride(pages: int, bits: int) -> int:
    """The smallest aligned stride at which the last of ``pages`` pages starts past 2^bits."""
    return ((1 << bits) // max(pages - 1, 1) // _ALIGN + 1) * _ALIGN


def use_last(table: npt.NDArray[np.int32], pages: int, entry: int = 0) -> int:
    """Exchange pages, in place, so that entry ``entry`` of request 0 is the last page of the pool."""
    first, last = int(table[0, entry]), pages - 1
    one, other = table == first, table == last
    table[one], table[other] = last, first
    return pages


def pool_pages(inputs: Mapping[str, Value]) -> int:
    """How many pages the pool of the inputs has."""
    return shape_of(inputs["kv"])[-3]
