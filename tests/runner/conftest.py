"""The small set of hand-made cases and the libraries with one fault each, shared with tests/targets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGETS = HERE.parent / "targets"
sys.path.insert(0, str(TARGETS))  # made.py, bad_targets.py

from made import small_cases  # noqa: E402

from harness.store import write_set  # noqa: E402
from harness.store.manifest import SetInfo  # noqa: E402
from harness.targets.locate import own_library  # noqa: E402


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "small"
    write_set(small_cases(), folder, SetInfo.here("smoke", 0))
    return folder


@pytest.fixture(scope="session")
def cpu_library() -> Path:
    return own_library("cpu").resolve()


@pytest.fixture(scope="session")
def flaky(cpu_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``flaky("-DBIT")``: a library that forwards to the real one and errs now and then."""
    folder = tmp_path_factory.mktemp("flaky")

    def build(*defines: str) -> Path:
        out = folder / f"lib{''.join(d.strip('-').replace('=', '') for d in defines)}.so"
        command = ["cc", "-shared", "-fPIC", "-O1", "-w", f"-I{ROOT / 'cuda' / 'include'}"]
        command += [f'-DREAL="{cpu_library}"', *defines, str(HERE / "flaky.c"), "-o", str(out), "-ldl"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return out

    return build
