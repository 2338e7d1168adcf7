"""The smoke set, and the library of wrong kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.generate import generate
from harness.mutants.build import build_library


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutants") / "smoke"
    generate("smoke", folder, jobs=1)
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library("cpu", tmp_path_factory.mktemp("library"))
