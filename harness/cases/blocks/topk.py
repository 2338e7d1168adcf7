"""Candidate rows of tree_build: log-probs float32 [B,L,K] sorted descending, and token ids int32 [B,L,K].

Every log-prob is an integer times a power of two, exact in float32. ``GRID`` rows are multiples of 2^-20
above -16, so that every order of summation is exact in float64 (and in 64-bit integers).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray, Value
from harness.draw import Draw

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Shape = tuple[int, ...]

VOCABULARY = 163_840
GRID_KINDS = ("even", "peaked", "flat", "decisive", "mixed")
UNIT = 1 << 20  # grid steps per nat


def scaled(integers: I64, exponent: int | I64) -> F32:
    """float32 ``-integers * 2**exponent`` for integers up to 2^24, exact; 0 is never -0."""
    unit = math.ldexp(1, exponent) if isinstance(exponent, int) else np.ldexp(np.float32(1), exponent)
    return np.float32(0) - integers.astype(np.float32) * unit


def descending(values: AnyArray) -> AnyArray:
    """Each row (last axis) sorted from large to small."""
    return np.flip(np.sort(values, axis=-1, kind="stable"), axis=-1)


def grid_rows(draw: Draw, shape: Shape, kind: str) -> F32:
    """Rows on the 2^-20 grid, float32 ``shape`` = (..,L,K).

    ``even``: uniform in (-8, 0]. ``peaked``: uniform in magnitude, from 2^-20 to 16. ``flat``: within a
    quarter of a nat. ``decisive``: the best within 0.1, the others at -2 .. -10. ``mixed``: another of these
    kinds in each row.
    """
    if kind == "mixed":
        options = np.stack([_steps(draw, shape, k) for k in GRID_KINDS[:4]])
        pick = draw.below(4, shape[:-1])
        steps = np.take_along_axis(options, pick[None, ..., None], axis=0)[0]
    else:
        steps = _steps(draw, shape, kind)
    steps.sort(axis=-1)
    return scaled(steps, -20)


def _steps(draw: Draw, shape: Shape, kind: str) -> I64:
    """Minus the log-probs, int64 in grid steps, in no order."""
    if kind == "even":
        return draw.below(8 * UNIT, shape)
    if kind == "peaked":
        return draw.below(16 * UNIT, shape) >> draw.below(20, shape)
    if kind == "flat":
        return UNIT + draw.below(UNIT // 4, shape)
    steps = 2 * UNIT + draw.below(8 * UNIT, shape)
    steps[..., 0] = draw.below(UNIT // 10, shape[:-1])
    return steps


def bf16_rows(draw: Draw, shape: Shape) -> F32:
    """Rows of bfloat16 values (8 significant bits, -0.5 .. -8): equal values are common."""
    return descending(scaled(128 + draw.below(128, shape), draw.below(4, shape[:-1])[..., None] - 8))


def off_grid_rows(draw: Draw, shape: Shape) -> F32:
    """Rows of float32 values with random significands and magnitudes 2^-12 .. 8; float64 sums are exact."""
    return descending(scaled((1 << 23) + draw.below(1 << 23, shape), draw.below(15, shape) - 35))


def tokens(draw: Draw, shape: Shape, vocabulary: int = VOCABULARY) -> npt.NDArray[np.int32]:
    """Token ids, distinct within each row, int32 ``shape`` = (..,L,K)."""
    # An odd step visits every residue of a power of two at or below the vocabulary once.
    size = 1 << (vocabulary.bit_length() - 1)
    if shape[-1] > size:
        raise ValueError(f"no {shape[-1]} distinct ids in a vocabulary of {vocabulary}")
    first, half = draw.below((vocabulary, size // 2), (2, *shape[:-1], 1))
    rank, twice = _ranks(shape[-1])
    ids: I64 = half * twice
    ids += first + rank
    ids &= size - 1
    return ids.astype(np.int32)


@cache
def _ranks(width: int) -> tuple[I64, I64]:
    return np.arange(width), 2 * np.arange(width)


def build_inputs(draw: Draw, logprob: F32, **given: Value) -> dict[str, Value]:
    """Inputs of tree_build around ``logprob`` [B,L,K]; tokens, roots and prefixes are drawn unless given."""
    token = tokens(draw, logprob.shape)
    root, prefix = draw.below((VOCABULARY, 100_000), (2, logprob.shape[0])).astype(np.int32)
    drawn: Mapping[str, Value] = {
        "topk_logprob": logprob,
        "topk_token": token,
        "root_token": root,
        "prefix_len": prefix,
    }
    return {**drawn, **given}
