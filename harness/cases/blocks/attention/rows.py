"""The two row layouts of verify_attn by a short name: ``mla4`` or ``gqa8x2d64v32``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.contract import MLA_DK, MLA_DV

# mscale^2 / sqrt(192): the head width before absorption, not the 576 of the absorbed row.
MLA_SCALE = float(np.float32(0.1352337788))

_GQA = re.compile(r"gqa(\d+)x(\d+)d(\d+)v(\d+)")


@dataclass(frozen=True)
class Rows:
    """Heads and widths of one layout; ``scale`` is a float32 value."""

    name: str
    Hq: int
    Hkv: int
    Dk: int
    Dv: int
    R: int
    scale: float

    @property
    def is_mla(self) -> bool:
        """True where the value is the first Dv elements of the key."""
        return self.name.startswith("mla")


@cache
def rows_named(name: str) -> Rows:
    """``mla<Hq>`` or ``gqa<Hq>x<Hkv>d<Dk>v<Dv>``; ValueError for anything else."""
    if re.fullmatch(r"mla\d+", name):
        return Rows(name, int(name[3:]), 1, MLA_DK, MLA_DV, MLA_DK, MLA_SCALE)
    match = _GQA.fullmatch(name)
    if match is None:
        raise ValueError(f"rows: got {name!r}, want mla<Hq> or gqa<Hq>x<Hkv>d<Dk>v<Dv>")
    hq, hkv, dk, dv = (int(g) for g in match.groups())
    return Rows(name, hq, hkv, dk, dv, hkv * (dk + dv), float(np.float32(1.0 / math.sqrt(dk))))
