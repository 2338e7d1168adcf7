"""Libraries that err now and then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def flaky(
    compile_c: Callable[..., Path], cpu_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """``flaky("-DBIT")``: a library that forwards to the real one and errs now and then."""
    folder = tmp_path_factory.mktemp("flaky")

    def build(*defines: str) -> Path:
        out = folder / f"lib{''.join(d.strip('-').replace('=', '') for d in defines)}.so"
        return compile_c(HERE / "flaky.c", out, f'-DREAL="{cpu_library}"', *defines)

    return build
