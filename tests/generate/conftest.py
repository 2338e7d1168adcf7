"""A small set, made by the generator."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_families import SMALL

from harness.generate import generate


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "smoke"
    generate("smoke", folder, jobs=1, catalogue=SMALL)
    return folder
