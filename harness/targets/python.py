"""Targets in Python: ``module:Class`` with one method per kernel, and the NumPy reference."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.case import AnyArray
from harness.contract import CAPABILITIES, KERNELS, NUMPY_DTYPES, DType
from harness.errors import HarnessError, UsageProblem
from harness.memory.timing import host_seconds
from harness.observation import Job, Round
from harness.results import TargetInfo
from harness.shapes import outputs_of, values_of
from harness.targets.base import Identity, Options, Refusal

MAX_OUTPUT = 1 << 34  # bytes of one output; a larger one can only be a mistake
_KERNEL_CAPABILITIES = {
    "tree_build": ("TREE_BUILD",),
    "verify_attn": ("ATTN_MLA", "ATTN_GQA", "ATTN_LSE"),
    "tree_accept": ("TREE_ACCEPT", "STOP_AND_LIMIT"),
    "kv_commit": ("KV_COMMIT",),
    "greedy_step": ("GREEDY_STEP",),
}


def open_python(name: str, options: Options) -> PythonTarget:
    """The target ``reference`` or ``module:Class``; UsageProblem where it cannot be imported."""
    if options.order is not None:
        raise UsageProblem(f"target {name} is not emulated and has no thread order; leave out --order")
    if name == "reference":
        return PythonTarget(name, "reference", Reference())
    module_name, _, attribute = name.partition(":")
    try:
        made = getattr(importlib.import_module(module_name), attribute)()
        return PythonTarget(name, "python", made)
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageProblem(f"target {name}: {type(error).__name__}: {error}") from error


class Reference:
    """The NumPy references, with attention rounded to the contract's dtypes."""

    description = "NumPy references in float64"

    def __getattr__(self, kernel: str) -> Callable[..., dict[str, AnyArray]]:
        if kernel not in KERNELS:
            raise AttributeError(kernel)
        import references

        return lambda **arguments: _rounded(getattr(references, kernel)(**arguments))


class PythonTarget:
    """An object whose methods take a kernel's inputs and scalars by name and return a dict of its outputs.

    A method it does not have, or one that raises NotImplementedError, is UNSUPPORTED. An inout array may
    be changed in place or returned. ``memory = "device"`` on the object limits a run to one worker,
    ``absent`` names outputs that it does not make, ``timing = "event"`` says that it returns ``seconds`` too.
    """

    poisons = False

    def __init__(self, name: str, kind: str, made: Any) -> None:
        self._made = made
        served = [k for k in KERNELS if callable(getattr(made, k, None))]
        declared = {c for k in served for c in _KERNEL_CAPABILITIES[k]}
        absent = getattr(made, "absent", ())
        if not isinstance(absent, tuple | list) or not set(absent) <= {"lse"}:
            raise UsageProblem(f"target {name}: absent is {absent!r}; only ('lse',) may be absent")
        declared -= {"ATTN_LSE"} if "lse" in absent else set()
        self.identity = Identity(
            TargetInfo(
                name=name,
                kind=kind,
                description=str(getattr(made, "description", type(made).__name__)),
                memory="device" if getattr(made, "memory", "host") == "device" else "host",
                timing="event" if getattr(made, "timing", "") == "event" else "host clock",
                capabilities=tuple(c for c in CAPABILITIES if c in declared),
            ),
            absent=tuple(absent),
        )

    def refusal(self, job: Job) -> Refusal | None:
        """A method that is not there."""
        if callable(getattr(self._made, job.kernel, None)):
            return None
        return Refusal(f"the target has no method {job.kernel}")

    def run_round(self, job: Job, round_index: int) -> Round:
        """One call on copies of the inputs."""
        kernel = KERNELS[job.kernel]
        given = {name: np.array(value) for name, value in job.inputs.items()}
        method = getattr(self._made, job.kernel)
        try:
            result, seconds = host_seconds(lambda: method(**given, **values_of(job.scalars)))
        except NotImplementedError as refused:
            return Round("refused", str(refused) or "NotImplementedError")
        except Exception as error:
            return Round("failed", f"{job.kernel} raised {type(error).__name__}: {error}")
        written = {a.name for a in kernel.arrays if a.role == "inout"}
        mutated = tuple(
            name
            for name, value in given.items()
            if name not in written and value.tobytes() != np.asarray(job.inputs[name]).tobytes()
        )
        outputs, malformed = _collect(job, given, result, self.identity.absent)
        if self.identity.info.timing == "event" and isinstance(result, Mapping) and "seconds" in result:
            seconds, fault = _own_seconds(result["seconds"], seconds)
            malformed += fault
        return Round("done", outputs=outputs, malformed=malformed, mutated=mutated, seconds=seconds)


def _collect(
    job: Job, given: Mapping[str, AnyArray], result: object, absent: tuple[str, ...]
) -> tuple[dict[str, AnyArray], tuple[str, ...]]:
    if not isinstance(result, Mapping):
        return {}, (f"returned {type(result).__name__}, want a dict of arrays by name",)
    outputs: dict[str, AnyArray] = {}
    malformed: list[str] = []
    for array in outputs_of(KERNELS[job.kernel], job.inputs):
        if array.name in absent:
            continue
        value = result.get(array.name, given[array.name] if array.role == "inout" else None)
        plain = _plain(value, array.dtype)
        if plain is None:
            malformed.append(f"{array.name}: {'missing' if value is None else type(value).__name__}")
        else:
            outputs[array.name] = plain
    return outputs, tuple(malformed)


def _own_seconds(told: object, measured: float) -> tuple[float, tuple[str, ...]]:
    """The time that a target measured itself, or the wall clock's and what is wrong with it."""
    if isinstance(told, int | float | np.number) and np.isfinite(told) and told >= 0:
        return float(told), ()
    return measured, (f"seconds: {told!r}, want a finite number of at least 0",)


def _plain(value: object, dtype: DType) -> AnyArray | None:
    """A copy of what a target returned: it may use the same memory again. None where it is no array."""
    if isinstance(value, np.ndarray):
        return np.array(value) if value.dtype.kind in "biuf" and value.nbytes <= MAX_OUTPUT else None
    if type(value).__module__.partition(".")[0] != "torch":
        return None
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    tensor = value.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    plain: AnyArray = tensor.numpy().copy()
    same_bits = dtype in ("bf16", "u32") and plain.dtype.kind == "i"
    return (
        plain.view(NUMPY_DTYPES[dtype])
        if same_bits and plain.itemsize == NUMPY_DTYPES[dtype].itemsize
        else plain
    )


def _rounded(outputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    from references.bf16 import float_to_bf16

    made = dict(outputs)
    if "out" in made:
        made["out"] = float_to_bf16(made["out"])
        made["lse"] = made["lse"].astype(np.float32)
    return made
