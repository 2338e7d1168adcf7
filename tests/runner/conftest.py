"""Libraries that err now and then; a supervisor with scripted children."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from made import tree_case
from scripted import Scripted

from harness.observation import Observation
from harness.runner import supervisor
from harness.runner.child import Death
from harness.runner.supervisor import Settings, Supervisor
from harness.targets import Options


@pytest.fixture(scope="session")
def flaky(around: Callable[..., Path]) -> Callable[..., Path]:
    """``flaky("-DBIT")``: a library that forwards to the real one and errs now and then."""
    return partial(around, Path(__file__).with_name("flaky.c"))


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch):
    def play(
        count: int, *answers: Observation | Death, budget: float | None = None
    ) -> tuple[list[object], int]:
        monkeypatch.setattr(supervisor, "Child", Scripted)
        Scripted.made, Scripted.answers = 0, list(answers)
        Scripted.taken.clear()
        Scripted.killed.clear()
        seen: list[object] = []
        cases = [str(n) for n in range(3, 3 + count)]
        runner = Supervisor(Settings("reference", Options(), 2, 1.0, budget))
        runner.run(cases, 1, lambda name: tree_case(int(name)), lambda case, what: seen.append(what))
        return seen, Scripted.made

    return play
