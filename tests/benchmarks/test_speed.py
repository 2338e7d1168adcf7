"""How fast the harness itself is. Run with `make bench`.

Processor time, not wall time, wherever the work is this process's own: the bars are per core, and a shared
machine moves wall times severalfold.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import bulk_families
import numpy as np
import pytest

import references
from harness.bench.ranks import mann_whitney, ratio_of
from harness.case import Case, materialize
from harness.cases import FAMILIES
from harness.cases.base import Family, Params, make_case
from harness.generate import generate
from harness.judge import judge
from harness.judge.compare import compare_case
from harness.observation import Job, Observation
from harness.replay import replay
from harness.results import Outcome
from harness.runner import wire
from harness.store import open_set, write_set
from harness.store.manifest import SetInfo
from harness.targets import open_target

pytestmark = pytest.mark.benchmark(timer=time.process_time)
ROOT = Path(__file__).resolve().parents[2]
TREES = 300  # cases of a set


def rows(budget: int, batch: int = 1, depth: int = 15, candidates: int = 64) -> dict[str, Any]:
    """Log-probs on a grid, as a draft model of depth 15 gives them."""
    draw = np.random.Generator(np.random.Philox(budget))
    steps = np.sort(draw.integers(-(2**22), 0, (batch, depth, candidates)), axis=-1)[..., ::-1]
    return {
        "topk_logprob": (steps / 2**20).astype(np.float32),
        "topk_token": draw.integers(0, 150_000, (batch, depth, candidates)).astype(np.int32),
        "root_token": np.ones(batch, np.int32),
        "prefix_len": np.zeros(batch, np.int32),
        "budget": budget,
    }


@pytest.mark.parametrize("budget", [16, 64, 256, 1024])
def test_reference_tree_build(benchmark: Any, budget: int) -> None:
    outputs = benchmark(references.tree_build, **rows(budget))
    assert outputs["node_count"][0] == budget + 1


@pytest.mark.parametrize("kernel", ["verify_attn", "tree_accept", "kv_commit", "greedy_step"])
def test_reference(benchmark: Any, kernel: str) -> None:
    case = next(iter(smoke(kernel, 1)))
    arguments = {name: materialize(value) for name, value in case.inputs.items()}
    benchmark(getattr(references, kernel), **arguments, **case.scalars)


def smoke(kernel: str, count: int) -> list[Case]:
    family = next(f for f in FAMILIES if f.kernel == kernel and any(True for _ in f.plan("smoke")))
    return [make_case(family, params, 0) for params in islice(family.plan("smoke"), count)]


def grid_plans() -> tuple[Family, list[Params]]:
    """Tree cases of one request at budget 64, as many as a bulk suite has."""
    family = next(f for f in FAMILIES if f.kernel == "tree_build" and f.name == "word_edge")
    params = next(p for p in family.plan("standard") if p.get("N") == 65)
    return family, [params] * TREES


@pytest.fixture(scope="module")
def trees() -> list[Case]:
    """Distinct ids, values of one plan."""
    family, plans = grid_plans()
    return [
        replace(make_case(family, params, i), case_id=f"tree_build/b/{i}") for i, params in enumerate(plans)
    ]


def per_second(benchmark: Any, cases: int, seconds: float, bar: float) -> None:
    """Note cases a second, and hold them to a bar."""
    rate = cases / seconds
    benchmark.extra_info.update({"cases a second": round(rate), "bar": bar})
    print(f"\n{benchmark.name}: {rate:,.0f} cases a second, {1e6 * seconds / cases:.0f} us (bar {bar:,.0f})")
    assert rate >= bar / float(os.environ.get("BENCH_SLACK", "2")), f"{rate:.0f} a second, want {bar:.0f}"


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


@pytest.mark.parametrize("kernel", ["tree_build", "tree_accept"])
@pytest.mark.benchmark(timer=processor_seconds)
def test_generate_tree_cases(benchmark: Any, tmp_path: Path, kernel: str) -> None:
    """What `gen-refs -j 1` does, in a process of its own: L 15, K 64, budget 64, without the start."""

    def make(suite: str) -> float:
        before = processor_seconds()
        generate(suite, tmp_path / suite, [kernel], jobs=1, catalogue="bulk_families")
        return processor_seconds() - before

    start = min(make("smoke") for _ in range(3))
    benchmark.pedantic(make, args=("standard",), rounds=5)
    cases = bulk_families.CASES["standard"] - bulk_families.CASES["smoke"]
    per_second(benchmark, cases, benchmark.stats.stats.min - start, 3000)


def test_write(benchmark: Any, trees: list[Case], tmp_path: Path) -> None:
    benchmark(lambda: write_set(iter(trees), tmp_path / "set", SetInfo.here("standard", 0)))
    per_second(benchmark, TREES, benchmark.stats.stats.min, 3000)


def test_read(benchmark: Any, trees: list[Case], tmp_path: Path) -> None:
    write_set(iter(trees), tmp_path / "set", SetInfo.here("standard", 0))

    def read() -> int:
        with open_set(tmp_path / "set") as fixtures:
            return sum(1 for _ in fixtures.cases())

    assert benchmark(read) == TREES
    per_second(benchmark, TREES, benchmark.stats.stats.min, 3000)


def test_judge(benchmark: Any, trees: list[Case]) -> None:
    def judge() -> bool:
        return all(compare_case(case, case.expected).right for case in trees)  # type: ignore[arg-type]

    assert benchmark(judge)
    per_second(benchmark, TREES, benchmark.stats.stats.min, 3000)


def test_worker_of_a_verify(
    benchmark: Any, trees: list[Case], compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """Both runs of a case, from the job to what was seen, with a kernel that takes no time."""
    target = open_target(str(compile_c(Path(__file__).parent / "nothing.c", tmp_path / "nothing.so")))
    jobs = [Job(case.kernel, case.inputs, case.scalars) for case in trees]
    seen = benchmark(lambda: [replay(target, job) for job in jobs])
    assert {one.status for one in seen} == {"done"}
    per_second(benchmark, TREES, benchmark.stats.stats.min, 1000)


def answer(case: Case) -> tuple[wire.Message, memoryview]:
    """The frame of a worker that saw the right outputs in both runs."""
    incoming, outgoing = os.pipe()
    wire.send_observation(outgoing, Observation("done", rounds=(case.expected, {})))  # type: ignore[arg-type]
    frame = wire.receive(incoming)
    os.close(incoming)
    os.close(outgoing)
    return frame


def test_supervisor_of_a_verify(benchmark: Any, trees: list[Case], tmp_path: Path) -> None:
    """Read a case, make a message of it, read an answer, judge it."""
    write_set(iter(trees), tmp_path / "set", SetInfo.here("standard", 0))
    answers = [answer(case) for case in trees]

    def supervise() -> int:
        with open_set(tmp_path / "set") as fixtures:
            for case, told in zip(fixtures.cases(), answers, strict=True):
                wire.job_frame(Job(case.kernel, case.inputs, case.scalars), 2)
                assert judge(case, wire.read_observation(*told)).outcome is Outcome.PASS
        return TREES

    assert benchmark(supervise) == TREES
    per_second(benchmark, TREES, benchmark.stats.stats.min, 2000)


@pytest.mark.parametrize("words", [("--help",), ("verify", "--help"), ("bench", "--help")])
@pytest.mark.benchmark(timer=time.perf_counter)
def test_command_line_start(benchmark: Any, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "harness", *words]

    used: list[float] = []

    def start() -> None:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    benchmark.pedantic(start, rounds=10, warmup_rounds=1)
    benchmark.extra_info["processor seconds"] = min(used)
    print(f"\n{' '.join(words)}: {1e3 * min(used):.0f} ms of processor time")
    if words == ("--help",):
        assert min(used) <= 0.150


@pytest.mark.parametrize("function", [mann_whitney, ratio_of])
def test_rank_statistics(benchmark: Any, function: Callable[..., Any]) -> None:
    first = [1.0 + i / 1000 for i in range(60)]
    benchmark(function, first, [x * 1.01 for x in first])
