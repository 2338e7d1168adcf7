"""Dimension letters of the contract, bound to the sizes of one case."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from numbers import Real

import numpy as np

from harness.case import Expected, Patched, Recipe, Sampled, Value
from harness.contract import KERNELS, PLANTED_INPUTS, SYNTHESIZED_INPUTS, Array, Kernel, mask_words
from harness.errors import UsageProblem

Dims = dict[str, int]
Form = tuple[str, tuple[int, ...]]  # NumPy dtype string and shape

# A scalar that some cases with a pool carry besides those of the contract: where memory is laid out for the
# C ABI, pages lie this many elements apart instead of S * R. It changes no value.
PAGE_STRIDE = "page_stride"


def kernel_named(name: str) -> Kernel:
    """The kernel of the contract called ``name``; UsageProblem where there is none."""
    if name not in KERNELS:
        raise UsageProblem(f"unknown kernel {name!r}; the contract has {', '.join(KERNELS)}")
    return KERNELS[name]


def shape_of(value: Expected) -> tuple[int, ...]:
    """The shape of a value, without materialising it."""
    return value.base.shape if isinstance(value, Patched) else value.shape


def dtype_of(value: Expected) -> str:
    """The NumPy dtype string of a value, without materialising it."""
    if isinstance(value, np.ndarray):
        return value.dtype.str
    if isinstance(value, Sampled):
        return value.values.dtype.str
    if isinstance(value, Patched):
        return dtype_of(value.base)
    if isinstance(value, Recipe):
        return "|u1" if value.kind == "bytes" else "<u2"
    raise TypeError(f"no value of a case: {type(value).__name__}")


def is_planted(inputs: Mapping[str, object]) -> bool:
    """True for a greedy_step case whose q, tail rows and target_predict are made on the device."""
    return "head" in inputs


def inputs_of(kernel: Kernel, given: Mapping[str, object]) -> tuple[Array, ...]:
    """The input arrays this case must bring: of greedy_step, one mode's only."""
    if kernel.name != "greedy_step":
        return kernel.inputs
    absent = SYNTHESIZED_INPUTS if is_planted(given) else PLANTED_INPUTS
    return tuple(a for a in kernel.inputs if a.name not in absent)


def outputs_of(kernel: Kernel, given: Mapping[str, object]) -> tuple[Array, ...]:
    """The arrays a target must give back, in contract order."""
    return _outputs(kernel.name, kernel.name == "greedy_step" and is_planted(given))


@cache
def _outputs(kernel_name: str, planted: bool) -> tuple[Array, ...]:
    kernel = KERNELS[kernel_name]
    return (*kernel.outputs, kernel.array("target_predict")) if planted else kernel.outputs


def bind(kernel: Kernel, inputs: Mapping[str, Value], scalars: Mapping[str, int | float]) -> Dims:
    """Sizes of every dimension letter. UsageProblem for a missing, unknown or misshapen input or scalar."""
    for name, number in scalars.items():
        if not isinstance(number, Real):
            raise UsageProblem(f"{kernel.name}: {name} is {type(number).__name__}, want a number")
    forms = tuple((name, (dtype_of(value), shape_of(value))) for name, value in inputs.items())
    return dict(_bound(kernel.name, forms, tuple(scalars.items())))


@lru_cache(1 << 10)
def _bound(
    kernel_name: str, forms: tuple[tuple[str, Form], ...], values: tuple[tuple[str, int | float], ...]
) -> Dims:
    """Many cases have inputs of the same forms."""
    kernel, inputs, scalars = KERNELS[kernel_name], dict(forms), dict(values)
    wanted = inputs_of(kernel, inputs)
    _same_names(f"{kernel.name} inputs", {a.name for a in wanted}, set(inputs))
    _same_names(f"{kernel.name} scalars", {s.name for s in kernel.scalars}, set(values_of(scalars)))
    dims = {s.name: int(scalars[s.name]) for s in kernel.scalars if s.name in ("Hkv", "Dv")}
    if "budget" in scalars:
        dims["N"] = int(scalars["budget"]) + 1
    if "depth_limit" in scalars:
        dims["A"] = int(scalars["depth_limit"]) + 1
    for array in wanted:
        _bind_one(kernel, array, inputs[array.name], dims)
    if "N" in dims:
        _agree(kernel, dims, "W", mask_words(dims["N"]))
    if PAGE_STRIDE in scalars and (
        kernel.name not in ("verify_attn", "kv_commit") or scalars[PAGE_STRIDE] < dims["S"] * dims["R"]
    ):
        raise UsageProblem(
            f"{kernel.name}: page_stride is {scalars[PAGE_STRIDE]}, want S * R or more, or none"
        )
    if kernel.name == "greedy_step" and is_planted(inputs):
        dims["Hq"] = dims["D"] // dims["Dv"]
        dims["Dk"] = dims["R"] if dims["Hkv"] == 1 else dims["R"] // dims["Hkv"] - dims["Dv"]
    return dims


def values_of(scalars: Mapping[str, int | float]) -> dict[str, int | float]:
    """The scalars of the contract: those that say what to compute."""
    return {name: value for name, value in scalars.items() if name != PAGE_STRIDE}


def shape_in(array: Array, dims: Dims) -> tuple[int, ...]:
    """The shape of ``array`` under ``dims``."""
    return tuple(dims[letter] for letter in array.dims)


def _bind_one(kernel: Kernel, array: Array, form: Form, dims: Dims) -> None:
    dtype, shape = form
    if dtype != array.numpy_dtype.str or len(shape) != len(array.dims):
        want = f"{array.numpy_dtype.name}[{', '.join(array.dims)}]"
        raise UsageProblem(f"{kernel.name}: {array.name} is {dtype}{list(shape)}, want {want}")
    for letter, size in zip(array.dims, shape, strict=True):
        _agree(kernel, dims, letter, size)


def _agree(kernel: Kernel, dims: Dims, letter: str, size: int) -> None:
    if dims.setdefault(letter, size) != size:
        raise UsageProblem(f"{kernel.name}: dimension {letter} is both {dims[letter]} and {size}")


def _same_names(what: str, wanted: set[str], given: set[str]) -> None:
    if missing := sorted(wanted - given):
        raise UsageProblem(f"{what}: {', '.join(missing)} missing")
    if unknown := sorted(given - wanted):
        raise UsageProblem(f"{what}: {', '.join(unknown)} unknown")
