"""bfloat16 as raw bits (uint16), because NumPy has no such type.

A bfloat16 is the upper half of a float32: 1 sign, 8 exponent and 7 fraction bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BF16_NAN = 0x7FFF  # the only NaN that rounding makes, sign and payload dropped, as CUDA's conversion does


def bf16_to_float32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Exact values of uint16 ``bits`` of any shape, as float32. ValueError for another dtype."""
    if bits.dtype != np.uint16:
        raise ValueError(f"bits: got {bits.dtype.name}, want uint16")
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_to_float64(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Exact values of uint16 ``bits`` of any shape, as float64. ValueError for another dtype."""
    with np.errstate(invalid="ignore"):  # a signalling NaN may raise the flag in the cast
        return bf16_to_float32(bits).astype(np.float64)


def float_to_bf16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Round float32 or float64 ``values`` of any shape to bfloat16 bits, nearest even, in one rounding.

    Overflow gives an infinity, subnormals are kept, the sign of zero is kept, every NaN becomes 0x7fff.
    A float64 goes through a float32 rounded to odd, which cannot round twice. ValueError for other dtypes.
    """
    if values.dtype == np.float32:
        single = np.ascontiguousarray(values).reshape(values.shape)
        bits = single.view(np.uint32)
    elif values.dtype == np.float64:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            single = np.ascontiguousarray(values).reshape(values.shape).astype(np.float32)
            wide = single.astype(np.float64)
            inexact = (wide != values) & ~np.isnan(values)
            grew = inexact & (np.abs(wide) > np.abs(values))
        bits = (single.view(np.uint32) - grew.astype(np.uint32)) | inexact.astype(np.uint32)
    else:
        raise ValueError(f"values: got {values.dtype.name}, want float32 or float64")
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = ((bits & np.uint32(0x7FFFFFFF)) + half) >> np.uint32(16)  # no carry into the sign
    sign = (bits >> np.uint32(16)) & np.uint32(0x8000)
    return np.where(np.isnan(values), np.uint32(BF16_NAN), rounded | sign).astype(np.uint16)
