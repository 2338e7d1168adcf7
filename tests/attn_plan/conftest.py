"""The planning of the tensor-core attention, compiled for the host."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("g++") or shutil.which("c++") or "g++"


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`plan_host.cpp` as a library."""
    path = tmp_path_factory.mktemp("plan") / "plan.so"
    source = REPO / "tests" / "attn_plan" / "plan_host.cpp"
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    include = f"-I{REPO / 'cuda' / 'src' / 'sm80'}"
    subprocess.run([COMPILER, *flags, include, str(source), "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))
    library.prefers_small_tiles.restype = ctypes.c_bool
    library.page_of.restype = ctypes.c_int64
    for name in ("tail_unit", "sharers", "quotient"):
        getattr(library, name).restype = ctypes.c_int64
    return library
