"""Libraries that err now and then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def flaky(around: Callable[..., Path]) -> Callable[..., Path]:
    """``flaky("-DBIT")``: a library that forwards to the real one and errs now and then."""
    return partial(around, Path(__file__).with_name("flaky.c"))
