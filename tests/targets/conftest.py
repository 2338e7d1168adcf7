"""Libraries compiled with one fault each, and a driver made of host memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made import HIT

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def faulty(around: Callable[..., Path]) -> Callable[..., Path]:
    """``faulty("PAST_END")``: the path of a library with that fault."""

    def build(fault: str, *options: str) -> Path:
        return around(HERE / "faulty.c", f"-DFAULT={fault}", f"-DFAULT_BUDGET={HIT}", *options)

    return build


@pytest.fixture(scope="session")
def fake_cuda(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a libcuda.so.1 made of host memory."""
    return compile_c(HERE / "fake_cuda.c", tmp_path_factory.mktemp("driver") / "libcuda.so.1").parent
