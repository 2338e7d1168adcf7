"""A small fixture set, a driver made of host memory that replays graphs, and device libraries for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from harness.case import Case
from harness.cases import FAMILIES
from harness.cases.base import make_case
from harness.store import write_set
from harness.store.manifest import SetInfo

HERE = Path(__file__).resolve().parent


def bench_cases() -> list[Case]:
    """A smoke case of every kernel; of greedy_step one of each mode."""
    cases = []
    for kernel in ("tree_build", "verify_attn", "tree_accept", "kv_commit"):
        family = next(f for f in FAMILIES if f.kernel == kernel and any(True for _ in f.plan("smoke")))
        cases += [make_case(family, params, 0) for params in islice(family.plan("smoke"), 1)]
    for family in (f for f in FAMILIES if f.kernel == "greedy_step" and f.name in ("synthesized", "planted")):
        plans = list(family.plan("smoke"))
        cases.append(make_case(family, plans[min(1, len(plans) - 1)], 0))
    return cases


@pytest.fixture(scope="session")
def bench_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "bench"
    write_set(bench_cases(), folder, SetInfo.here("smoke", 0))
    return folder


@pytest.fixture(scope="session")
def graph_cuda(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a libcuda.so.1 that records and replays."""
    return compile_c(HERE / "graph_cuda.c", tmp_path_factory.mktemp("driver") / "libcuda.so.1").parent


@pytest.fixture
def driver(graph_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Workers find the fake driver; this process never loads it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(graph_cuda))
    return monkeypatch


@pytest.fixture(scope="session")
def device(around: Callable[..., Path]) -> Callable[..., str]:
    """``device("-DSPIN=1000")``: the path of a device library with these options."""
    return lambda *options: str(around(HERE / "device_library.c", *options))
