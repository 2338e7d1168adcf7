"""What a stored sample of rows must be, so that a comparison means what it says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.case import ROW_AXES, Expected, Sampled

SAMPLED_NAMES = frozenset({"out", "out_m", "lse", "lse_d"})


def sample_fault(kernel: str, expected: Mapping[str, Expected]) -> str:
    """What is wrong with the sampled values of a case, in words; empty where nothing is.

    All four attention values are samples or none is; they have the same rows, rising and inside, of the same
    [B,N,Hq], and ``visible`` [B,N] is stored whole.
    """
    samples = {name: value for name, value in expected.items() if isinstance(value, Sampled)}
    if not samples:
        return ""
    if kernel != "verify_attn" or samples.keys() != SAMPLED_NAMES:
        return f"{', '.join(sorted(samples))} of {kernel} are samples; all attention values are, or none"
    first, visible = samples["out"], expected.get("visible")
    lead = first.shape[:ROW_AXES]
    if any(value.shape[:ROW_AXES] != lead for value in samples.values()):
        return "the samples have different shapes"
    if not isinstance(visible, np.ndarray) or visible.shape != lead[:-1]:
        return "visible is not stored of every node"
    rows = first.rows
    inside = len(rows) > 0 and rows[0] >= 0 and rows[-1] < int(np.prod(lead))
    if not inside or (np.diff(rows) <= 0).any():
        return "the sampled rows are none, outside or not rising"
    if any(not np.array_equal(value.rows, rows) for value in samples.values()):
        return "the samples are of different rows"
    return ""
