"""Lint: a case brings the contract's arrays and scalars, in the contract's dtypes, shapes and limits."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Case
from harness.contract import (
    KERNELS,
    MAX_CANDIDATES,
    MAX_DEPTH,
    MAX_NODES,
    MAX_PAGE_SLOTS,
    MLA_DK,
    MLA_DV,
    Array,
)
from harness.errors import UsageProblem
from harness.shapes import Dims, bind, dtype_of, outputs_of, shape_in, shape_of

LIMITS = {
    "B": (1, None),
    "L": (1, MAX_DEPTH),
    "K": (1, MAX_CANDIDATES),
    "N": (1, MAX_NODES),
    "A": (2, MAX_DEPTH + 1),
    "S": (1, MAX_PAGE_SLOTS),
    "Y": (1, None),
    "R": (1, None),
}
# What stands beside the attention outputs: the allowance needs it.
_BESIDE = {"out": (("out_m", "<f4"),), "lse": (("lse_d", "<f4"), ("visible", "<i4"))}


def array_findings(case: Case) -> Iterator[str]:
    """One line for each thing that is not as the contract wants it."""
    try:
        dims = bind(KERNELS[case.kernel], case.inputs, case.scalars)
    except UsageProblem as error:
        yield str(error)
        return
    for letter, (low, high) in LIMITS.items():
        size = dims.get(letter, low)
        if size < low or (high is not None and size > high):
            yield f"{letter} is {size}, outside {low}..{'' if high is None else high}"
    if "Dk" in dims:
        yield from _attention_dims(dims)
    yield from _expected(case, dims)


def _attention_dims(dims: Dims) -> Iterator[str]:
    groups, dk, dv = dims["Hkv"], dims["Dk"], dims["Dv"]
    if dims["R"] == dk:
        if (groups, dk, dv) != (1, MLA_DK, MLA_DV):
            yield f"an mla row of Dk {dk} and Dv {dv} with {groups} KV heads"
    elif dims["R"] != groups * (dk + dv) or dims["Hq"] % groups:
        yield f"R {dims['R']} and Hq {dims['Hq']} do not fit {groups} KV heads of {dk} + {dv}"


def _expected(case: Case, dims: Dims) -> Iterator[str]:
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {}
    for array in outputs_of(KERNELS[case.kernel], case.inputs):
        shape = shape_in(array, dims | _derived(array, dims))
        wanted[array.name] = ("<f4" if array.name in _BESIDE else array.numpy_dtype.str, shape)
        for name, dtype in _BESIDE.get(array.name, ()):
            wanted[name] = (dtype, shape[:-1] if name == "visible" else shape)
    for name in sorted(wanted.keys() ^ case.expected.keys()):
        yield f"expected {name} is {'missing' if name in wanted else 'unknown'}"
    for name in sorted(wanted.keys() & case.expected.keys()):
        got = (dtype_of(case.expected[name]), shape_of(case.expected[name]))
        if got != wanted[name]:
            yield f"expected {name} is {got[0]}{list(got[1])}, want {wanted[name][0]}{list(wanted[name][1])}"


def _derived(array: Array, dims: Dims) -> Dims:
    """Dimensions that no input shows."""
    return {"W": (dims["N"] + 31) // 32} if "W" in array.dims else {}
