"""Packages that only a peer needs."""

from __future__ import annotations

import importlib
from typing import Any

from harness.errors import EnvironmentProblem

_REMEDY = {
    "torch": "install PyTorch (https://pytorch.org/get-started/locally)",
    "flashinfer": "install it beside a CUDA build of PyTorch: `pip install flashinfer-python`",
}


def need(name: str) -> Any:
    """The package, or EnvironmentProblem that says how to get it."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # an optional package fails in many ways
        text = f"this target needs the Python package {name}: {type(error).__name__}: {error}"
        raise EnvironmentProblem(f"{' '.join(text.split())}; {_REMEDY[name]}") from error


def gpu_of(torch: Any) -> str:
    """The device for tensors; EnvironmentProblem without a GPU that torch can use."""
    if not torch.cuda.is_available():
        raise EnvironmentProblem("this target needs a GPU that torch can use; torch sees none")
    return "cuda"
