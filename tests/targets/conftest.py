"""A small fixture set, the project's CPU library, and libraries compiled with one fault each."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from made import HIT, small_cases

from harness.store import write_set
from harness.store.manifest import SetInfo
from harness.targets.locate import own_library

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "cuda" / "include"


def compile_c(source: Path, out: Path, *defines: str) -> Path:
    command = ["cc", "-shared", "-fPIC", "-O1", "-w", f"-I{INCLUDE}", *defines, str(source), "-o", str(out)]
    subprocess.run([*command, "-ldl"], check=True, capture_output=True, text=True)
    return out


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "small"
    write_set(small_cases(), folder, SetInfo.here("smoke", 0))
    return folder


@pytest.fixture(scope="session")
def cpu_library() -> Path:
    return own_library("cpu").resolve()


@pytest.fixture(scope="session")
def faulty(cpu_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``faulty("PAST_END")``: the path of a library with that fault."""
    folder = tmp_path_factory.mktemp("faulty")

    def build(fault: str, *defines: str) -> Path:
        name = "-".join(["lib", fault, *(d.strip("-") for d in defines)])
        options = [f"-DFAULT={fault}", f"-DFAULT_BUDGET={HIT}", f'-DREAL="{cpu_library}"', *defines]
        return compile_c(HERE / "faulty.c", folder / f"{name}.so", *options)

    return build


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a libcuda.so.1 made of host memory."""
    folder = tmp_path_factory.mktemp("driver")
    return compile_c(HERE / "fake_cuda.c", folder / "libcuda.so.1").parent
