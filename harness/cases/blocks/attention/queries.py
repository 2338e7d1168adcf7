"""Queries that lean to the tail, by integer arithmetic alone.

With random queries a long prefix takes nearly all the weight, and a wrong mask stays under any bound. So the
keys of all live tail rows, hidden ones too, carry the same few elements (the mark), and a query is noise plus
a multiple of the mark, chosen so that the keys its node sees get a fair share of the weight. Then a hidden
key that is let in weighs as much as a visible one. Keys and queries are integers in units of 1/128.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import isqrt

import numpy as np
import numpy.typing as npt

from harness.draw import Draw

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UNIT_BITS = 7  # keys and queries are multiples of 2^-7
FINE = 10  # bits of the coefficients
_LOG2E = Fraction(1442695040888963407, 10**18)
_STEPS = 11  # halvings of the range of the multiple
_KEYS = 8192  # keys converted at a time
_REACH = 14  # nats: the most that the multiple may move a marked key


def lean(
    draw: Draw,
    prefix: Floats,
    tail: Floats,
    mark: Floats,
    sees: npt.NDArray[np.bool_],
    heads: int,
    scale: float,
    *,
    noise: int = 100,
    share: tuple[int, int] = (18, 32),
    pull: Ints | None = None,
) -> Ints:
    """Queries int64 [r,heads,Dk] in units of 1/128, of at most 8 significant bits.

    ``prefix`` [P,Hkv,Dk] and ``tail`` [n,Hkv,Dk] are keys in units of 1/128 (whole numbers; products are
    taken in float64, so that they are exact), ``mark`` [Hkv,Dk] is what all tail keys share, ``sees`` bool
    [r,n] says what each query sees (r = n for all nodes of a tree). ``noise`` is the standard deviation of
    the logits of random keys in percent. Where there is a prefix, the tail gets the weight that equal logits
    would give it, but at least ``share[0]`` and at most ``share[1]`` percent. ``pull`` [r,heads,Dk], in units
    of 2^-17, is added to the noise.
    """
    nodes, (_, groups, width) = len(sees), tail.shape
    amplitude = int(Fraction(noise * 3 << FINE, 100) / Fraction(scale) * 1024 / isqrt(width << 20))
    base = amplitude * (draw.below(256, (nodes, heads, width)) - 128)
    base = base if pull is None else base + pull
    seen = sees.sum(axis=1).astype(np.int64)
    wanted = np.clip(100 * seen // np.maximum(len(prefix) + seen, 1), *share)
    if len(prefix) == 0:
        return eight_bits(base >> FINE)
    towards = np.repeat(mark, heads // groups, axis=0)
    keys = np.concatenate([prefix, tail])
    hidden = np.concatenate([np.zeros((nodes, len(prefix)), np.bool_), ~sees], axis=1)
    unit = log2_unit(scale)
    marked = max(int(np.count_nonzero(mark[0])), 1)
    reach = int(Fraction(_REACH << FINE) / (Fraction(scale) * marked))
    multiple = np.zeros((nodes, heads), np.int64)
    for h in range(heads):
        key = keys[:, h // (heads // groups)]
        fixed = _products(base[:, h].astype(np.float64), key)
        slope = _products(towards[h][None], key)[0]
        low = np.full(nodes, -reach, np.int64)
        high = np.full(nodes, reach, np.int64)
        for _ in range(_STEPS):
            middle = (low + high) >> 1
            weight = weights((fixed + middle[:, None] * slope) * unit >> 36, hidden)
            inside = weight[:, len(prefix) :].sum(axis=1)
            above = 100 * inside > wanted * weight.sum(axis=1)
            high, low = np.where(above, middle, high), np.where(above, low, middle)
        multiple[:, h] = low
    return eight_bits((base + multiple[..., None] * towards.astype(np.int64)) >> FINE)


def _products(rows: Floats, keys: Floats) -> Ints:
    """``rows`` [r,Dk] times ``keys`` [k,Dk]: int64 [r,k], exact. Some keys at a time become float64."""
    parts = [rows @ keys[at : at + _KEYS].astype(np.float64).T for at in range(0, len(keys), _KEYS)]
    return np.concatenate(parts, axis=1).astype(np.int64)


def draw_mark(draw: Draw, groups: int, width: int) -> Floats:
    """A mark [groups,width] in units of 1/128: +-1 in up to 32 of the last elements but one, 0 elsewhere."""
    marked = min(32, max(4, width // 4))
    mark = np.zeros((groups, width))
    mark[:, -1 - marked : -1] = 256.0 * draw.below(2, (groups, marked)) - 128.0
    return mark


def log2_unit(scale: float) -> int:
    """Factor f: a dot product of base and key, times f, shifted right by 36, is 64 * log2 of its weight."""
    return int(Fraction(scale) * _LOG2E * 64 * 2**36 / 2 ** (2 * UNIT_BITS + FINE))


def weights(level: Ints, hidden: npt.NDArray[np.bool_]) -> Ints:
    """2^(level / 64) of ``level`` int64 [n,k] over the largest visible of its row, in units of 2^-30.

    0 where ``hidden`` bool [n,k].
    """
    below = np.where(hidden, np.iinfo(np.int64).min // 2, level)
    below = np.maximum(below - below.max(axis=1, keepdims=True), -(64 * 40))
    value = _powers()[below & 63] >> -(below >> 6)
    return np.where(hidden, 0, value)


def eight_bits(values: Ints) -> Ints:
    """``values`` rounded to 8 significant bits, halves away from zero."""
    size = np.abs(values)
    _, length = np.frexp(size.astype(np.float64))
    drop = np.maximum(length.astype(np.int64) - 8, 0)
    rounded = (size + ((np.int64(1) << drop) >> 1)) >> drop << drop
    result: Ints = np.where(values < 0, -rounded, rounded)
    return result


@cache
def _powers() -> Ints:
    """floor(2^(30 + f / 64)) for f = 0..63, by six integer square roots each."""
    table = []
    for f in range(64):
        power = 1 << (30 * 64 + f)
        for _ in range(6):
            power = isqrt(power)
        table.append(power)
    return np.array(table, np.int64)
