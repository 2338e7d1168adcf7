"""Shared by the tests of targets, runner and bench: small sets, this project's library, a C compiler."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "targets"))  # made.py, bad_targets.py

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def compile_c() -> Compile:
    """``compile_c(source, out, "-DOPTION")``: a shared library, at ``out``."""

    def compiled(source: Path, out: Path, *options: str) -> Path:
        command = ["cc", "-shared", "-fPIC", "-O1", "-w", f"-I{ROOT / 'cuda' / 'include'}", *options]
        command += [str(source), "-o", str(out), "-ldl"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return out

    return compiled


@pytest.fixture(scope="session")
def compile_part() -> Callable[..., ctypes.CDLL]:
    """``compile_part("kv_commit/x.cpp", folder)``: parts of kernels with an entry of their own, emulated."""

    def compiled(source: str, folder: Path, *options: str) -> ctypes.CDLL:
        path, cuda = folder / f"{Path(source).stem}.so", ROOT / "cuda"
        sources = [ROOT / "tests" / source, *sorted((cuda / "compat" / "cpu").glob("*.cpp"))]
        flags = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-ffp-contract=off"]
        flags += ["-pthread", "-shared", "-fPIC"]
        include = [f"-I{cuda}", f"-I{cuda / 'include'}", f"-I{cuda / 'src'}"]
        command = [os.environ.get("CXX", "g++"), *flags, *options, *include, *map(str, sources)]
        command += ["-o", str(path)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(path))

    return compiled


@pytest.fixture(scope="session")
def cpu_library() -> Path:
    from harness.targets.locate import own_library

    return own_library("cpu").resolve()


@pytest.fixture(scope="session")
def around(compile_c: Compile, cpu_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """``around(source, "-DOPTION")``: a library that forwards to this project's own, but for its options."""
    folder = tmp_path_factory.mktemp("around")

    def compiled(source: Path, *options: str) -> Path:
        name = "-".join([f"lib{source.stem}", *(option.strip("-") for option in options)])
        out = folder / f"{name}.so"
        return out if out.exists() else compile_c(source, out, f'-DREAL="{cpu_library}"', *options)

    return compiled


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from made import small_cases

    from harness.store import write_set
    from harness.store.manifest import SetInfo

    folder = tmp_path_factory.mktemp("sets") / "small"
    write_set(small_cases(), folder, SetInfo.here("smoke", 0))
    return folder
