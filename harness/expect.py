"""Expected outputs of a case, by the references, in the form that is stored and compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import references
from harness.case import AnyArray, Expected, Patched, Recipe, Value, known, materialize
from harness.expect_rows import sampled_attention
from harness.shapes import values_of

Inputs = Mapping[str, Value]
Scalars = Mapping[str, int | float]

_FLOATS = ("out", "out_m", "lse", "lse_d")  # float64 in the references, float32 (wider than bf16) here


def run_reference(kernel: str, inputs: Inputs, scalars: Scalars) -> dict[str, AnyArray]:
    """The reference's outputs, as it returns them. Raises ValueError for inputs that break the contract."""
    arguments: dict[str, Any] = {name: materialize(value) for name, value in inputs.items()}
    result: dict[str, AnyArray] = getattr(references, kernel)(**arguments, **values_of(scalars))
    return result


def expected_outputs(
    kernel: str, inputs: Inputs, scalars: Scalars, rows: npt.NDArray[np.int64] | None = None
) -> dict[str, Expected]:
    """Outputs keyed by the contract's names. A pool made from a recipe comes back as a patch of it.

    ``rows``, for verify_attn of one KV head: rising places in [B*N*Hq] of the rows to compute and keep.
    """
    if rows is not None:
        return sampled_attention(inputs, scalars, rows)
    expected: dict[str, Expected] = {}
    for name, array in run_reference(kernel, inputs, scalars).items():
        expected[name] = array.astype(np.float32) if name in _FLOATS else array
    pool = inputs.get("kv")
    if "kv" in expected and isinstance(pool, Recipe | Patched):
        base = pool if isinstance(pool, Recipe) else pool.base
        expected["kv"] = Patched.difference(base, known(expected["kv"]))
    return expected
