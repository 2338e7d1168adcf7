"""Facts about this machine that belong into results: no host, user or path names."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import numpy as np


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_facts() -> dict[str, str]:
    """Platform, processor, Python and NumPy."""
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": f"{_cpu_model()}, {cores()} cores".lstrip(", "),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def built_not_run(description: str, capability: str) -> tuple[str, ...]:
    """Architectures of a GPU library, as its description names them, that this device is not.

    ``built_not_run("CUDA 13.0, sm 90-real 120-real 90-virtual", "9.0")`` is ``("sm_120",)``.
    """
    built = re.findall(r"\b(\d{2,3}[a-z]?)-real", description)
    return tuple(f"sm_{arch}" for arch in built if arch.rstrip("af") != capability.replace(".", ""))
