"""Libraries compiled with one fault each, and a driver made of host memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made import HIT

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def faulty(
    compile_c: Callable[..., Path], cpu_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """``faulty("PAST_END")``: the path of a library with that fault."""
    folder = tmp_path_factory.mktemp("faulty")

    def build(fault: str, *defines: str) -> Path:
        name = "-".join(["lib", fault, *(d.strip("-") for d in defines)])
        options = [f"-DFAULT={fault}", f"-DFAULT_BUDGET={HIT}", f'-DREAL="{cpu_library}"', *defines]
        return compile_c(HERE / "faulty.c", folder / f"{name}.so", *options)

    return build


@pytest.fixture(scope="session")
def fake_cuda(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a libcuda.so.1 made of host memory."""
    return compile_c(HERE / "fake_cuda.c", tmp_path_factory.mktemp("driver") / "libcuda.so.1").parent
