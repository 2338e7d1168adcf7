"""bf16 conversions on every bit pattern, and rounding against exact fractions."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from references import bf16_to_float32, bf16_to_float64, float_to_bf16

EVERY = np.arange(65536, dtype=np.uint16)


def value(bits: int) -> float:
    return struct.unpack(">f", struct.pack(">HH", bits, 0))[0]


def nearest(x: float) -> int:
    """Bits of the bfloat16 nearest to ``x``, ties to even, by a search with exact fractions."""
    if math.isnan(x):
        return 0x7FFF
    sign = 0x8000 if math.copysign(1.0, x) < 0 else 0
    size = abs(x)
    if math.isinf(size):
        return sign | 0x7F80
    low, high = 0, 0x7F80  # value(low) <= size < "value" of high, infinity standing for 2^128
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(value(middle)) <= Fraction(size) else (low, middle)
    top = Fraction(2) ** 128 if high == 0x7F80 else Fraction(value(high))
    below, above = Fraction(size) - Fraction(value(low)), top - Fraction(size)
    if below < above or (below == above and low % 2 == 0):
        return sign | low
    return sign | high


def test_every_pattern_to_float():
    got = bf16_to_float32(EVERY)
    for bits in range(65536):
        want = value(bits)
        assert got[bits] == want or (math.isnan(want) and math.isnan(got[bits]))
    np.testing.assert_array_equal(bf16_to_float64(EVERY), [value(bits) for bits in range(65536)])
    assert got.dtype == np.float32 and bf16_to_float64(EVERY).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_pattern_round_trips(dtype):
    back = float_to_bf16(bf16_to_float64(EVERY).astype(dtype))
    nan = (EVERY & 0x7FFF) > 0x7F80
    np.testing.assert_array_equal(back, np.where(nan, 0x7FFF, EVERY))
    assert back.dtype == np.uint16


def test_rounding_at_and_around_every_halfway_point():
    """Between every two neighbours: the halfway point, a hair below and above, as float32 and as float64."""
    low = EVERY[:0x7F80]
    half = (low.astype(np.int64) << 16) + 0x8000
    for sign in (0, 0x80000000):
        for step in (-1, 0, 1):
            x = ((half + step) | sign).astype(np.uint32).view(np.float32)
            up = (step > 0) | ((step == 0) & (low % 2 == 1))
            want = (low + up) | (sign >> 16)
            np.testing.assert_array_equal(float_to_bf16(x), want)
            np.testing.assert_array_equal(float_to_bf16(x.astype(np.float64)), want)
        middle = (half | sign).astype(np.uint32).view(np.float32).astype(np.float64)
        for up, away in ((0, 0.0), (1, np.inf)):
            near = np.nextafter(middle, np.copysign(away, middle))  # closer than float32 can tell
            np.testing.assert_array_equal(float_to_bf16(near), (low + up) | (sign >> 16))


def test_float64_is_rounded_once():
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 3 * 2.0**-8 - 2.0**-40])
    assert float_to_bf16(x).tolist() == [0x3F81, 0x3F80, 0x3F82, 0x3F81]
    assert float_to_bf16(x.astype(np.float32)).tolist() == [0x3F80, 0x3F80, 0x3F82, 0x3F82]


def test_random_doubles_against_fractions():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    x = np.concatenate([x, np.ldexp(rng.standard_normal(3000), rng.integers(-160, 140, 3000))])
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.8e308, 3.3961775292304607e38]])
    assert float_to_bf16(x).tolist() == [nearest(v) for v in x.tolist()]
    with np.errstate(over="ignore", invalid="ignore"):
        single = x.astype(np.float32)
    assert float_to_bf16(single).tolist() == [nearest(v) for v in single.tolist()]


def test_shapes_and_strides():
    x = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    assert float_to_bf16(x.T).shape == (4, 3, 2)
    np.testing.assert_array_equal(bf16_to_float64(float_to_bf16(x.T)), x.T)
    assert float_to_bf16(np.array(1.5)).item() == 0x3FC0
    assert bf16_to_float32(np.zeros((0, 3), np.uint16)).shape == (0, 3)
    np.testing.assert_array_equal(bf16_to_float64(EVERY[::4096]), bf16_to_float64(EVERY)[::4096])


def test_wrong_dtypes():
    with pytest.raises(ValueError, match="bits: got int16, want uint16"):
        bf16_to_float32(np.zeros(1, np.int16))
    with pytest.raises(ValueError, match="values: got float16, want float32 or float64"):
        float_to_bf16(np.zeros(1, np.float16))
