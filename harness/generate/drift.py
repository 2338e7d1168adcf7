"""Whether two sets of the same suite and seed are the same set.

Inputs, scalars, flags and expected integers must be equal bit for bit. Expected floats may differ in the last
bits between machines: by 1e-12 m + 2^-23 |ref|, where m is the stored ``out_m`` for ``out`` and 1 for every
other array, with non-finite values in the same places. Notes are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.case import AnyArray, Case, Expected, Patched, Recipe, Sampled, known
from harness.store import FixtureSet


def first_difference(
    stored: FixtureSet, fresh: FixtureSet, kernels: Sequence[str] | None = None
) -> str | None:
    """One line that names the first file, case and array that differ, or None. May raise FixtureError."""
    for name in ("suite", "root_seed"):
        old, new = getattr(stored.manifest.info, name), getattr(fresh.manifest.info, name)
        if old != new:
            return f"manifest.json: {name} is {old!r}, generated {new!r}"
    for kernel in kernels or sorted({*stored.kernels, *fresh.kernels}):
        if kernel not in stored.kernels or kernel not in fresh.kernels:
            return f"{kernel}.h5: only in the {'stored' if kernel in stored.kernels else 'generated'} set"
        found = _in_file(kernel, stored, fresh)
        if found is not None:
            return f"{kernel}.h5: {found}"
    return None


def _in_file(kernel: str, stored: FixtureSet, fresh: FixtureSet) -> str | None:
    old, new = ({s.case_id: s.integrity_sha256 for s in one.summaries(kernel)} for one in (stored, fresh))
    for a, b in zip(old, new, strict=False):
        if a != b:
            return f"case {a} is stored where {b} is generated"
    if len(old) != len(new):
        return f"{len(old)} cases stored, {len(new)} generated"
    for case_id in new:
        if old[case_id] != new[case_id]:
            found = case_difference(stored.case(case_id), fresh.case(case_id))
            if found is not None:
                return f"case {case_id}: {found}"
    return None


def case_difference(old: Case, new: Case) -> str | None:
    """The first thing in which two cases of one id differ beyond the last bits, or None."""
    for name in ("family", "flags", "policy", "validity", "seed", "scalars"):
        if repr(getattr(old, name)) != repr(getattr(new, name)):
            return f"{name} is {getattr(old, name)!r}, generated {getattr(new, name)!r}"
    for role, a, b in (("input", old.inputs, new.inputs), ("expected", old.expected, new.expected)):
        if a.keys() != b.keys():
            return f"{role} arrays are {', '.join(a)}, generated {', '.join(b)}"
        for name in a:
            scale = known(new.expected["out_m"]) if name == "out" and "out_m" in new.expected else None
            found = _array_difference(a[name], b[name], role == "expected", scale)
            if found is not None:
                return f"{role} {name} {found}"
    return None


def _array_difference(old: Expected, new: Expected, expected: bool, scale: AnyArray | None) -> str | None:
    if isinstance(old, Recipe | Patched) and isinstance(new, Recipe | Patched):
        bases = [value if isinstance(value, Recipe) else value.base for value in (old, new)]
        if bases[0] != bases[1]:
            return f"comes from {bases[0]}, generated from {bases[1]}"
    if isinstance(old, Sampled) or isinstance(new, Sampled):
        rows = [value.rows.tolist() if isinstance(value, Sampled) else None for value in (old, new)]
        if rows[0] != rows[1]:
            return "samples other rows"
    a, b = known(old), known(new)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"is {a.dtype} {a.shape}, generated {b.dtype} {b.shape}"
    if expected and a.dtype.kind == "f":
        wrong = ~_close(a.astype(np.float64), b.astype(np.float64), scale)
    else:
        bits = np.dtype(f"u{a.dtype.itemsize}")
        wrong = a.view(bits) != b.view(bits)
    if not wrong.any():
        return None
    at = tuple(np.argwhere(wrong)[0].tolist())
    return f"differs at {list(at)}: stored {a[at]}, generated {b[at]}"


def _close(old: AnyArray, new: AnyArray, scale: AnyArray | None) -> AnyArray:
    m = np.ones_like(new) if scale is None else scale.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(old - new) <= 1e-12 * m + 2.0**-23 * np.abs(new)
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    return np.asarray(np.where(np.isfinite(new) & np.isfinite(old), near, same))
