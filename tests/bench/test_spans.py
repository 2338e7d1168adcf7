"""Device spans of kernels: what a profiler returned becomes spans, and what it did not becomes a note."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from bench_samples import made, schema
from click.testing import CliRunner

from harness.bench import profiler, spans
from harness.bench.profiler import Launch, readable, recorded, spans_of, unavailable
from harness.bench.run import BenchOptions, bench
from harness.bench_results import BenchResults
from harness.cli import bench as bench_cli
from harness.errors import HarnessError
from harness.observation import Observation
from harness.report.bench import write_bench
from harness.results import Outcome
from harness.store import open_set

# A torch whose profiler reports, for every call of a launched graph, two kernels that overlap, a flush and
# what the host did. How many calls a launch has stands in the file of the driver (graph_cuda.c).
STAND_IN = """
import os
from types import SimpleNamespace
ProfilerActivity = SimpleNamespace(CUDA="cuda")

def calls():
    with open(os.environ["FAKE_CUDA_COUNT"]) as file:
        return sum(int(line) for line in file.read().split() if line != "f")

def event(name, device, start, nanoseconds):
    return SimpleNamespace(
        name=lambda: name, device_type=lambda: SimpleNamespace(name=device),
        start_ns=lambda: start, duration_ns=lambda: nanoseconds,
    )

class profile:
    def __init__(self, activities):
        assert activities == ["cuda"]
    def __enter__(self):
        self.before = calls()
        return self
    def __exit__(self, *error):
        made = [event("Memset (Device)", "CUDA", 0, 70000), event("cudaLaunch", "CPU", 1, 5)]
        if os.environ.get("PROFILER_DIES"):
            os._exit(9)
        for i in range(0 if os.environ.get("PROFILER_BLIND") else calls() - self.before):
            made.append(event("void second<7>(args)", "CUDA", 1000 * i + 500, 900))
            made.append(event("void (anonymous namespace)::first(args)", "CUDA", 1000 * i, 700 + i % 2))
        self.profiler = SimpleNamespace(kineto_results=SimpleNamespace(events=lambda: made))
"""


@pytest.fixture
def profiled(driver: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Workers import the stand-in, and this process believes that they can."""
    package = tmp_path / "path" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "profiler.py").write_text(STAND_IN)
    driver.setenv("PYTHONPATH", str(package.parent))
    driver.setenv("FAKE_CUDA_COUNT", str(tmp_path / "count"))
    driver.setattr(spans, "unavailable", lambda: "")
    return driver


def run(bench_set: Path, library: str, *kernels: str) -> BenchResults:
    return bench(bench_set, library, BenchOptions(kernels=kernels, samples=30))


def test_every_series_has_the_spans_of_its_kernels(bench_set: Path, profiled, device) -> None:
    results = run(bench_set, device(), "tree_accept", "kv_commit")
    assert results.exit_reason == "" and results.planned == 2
    jsonschema.validate(json.loads(results.to_json()), schema("bench.schema.json"))
    for case in results.cases:
        assert [(s.cache, s.kernel, s.launches) for s in case.device_span or ()] == [
            ("cold", "first", 1.0), ("cold", "second<7>", 1.0),
            ("warm", "first", 1.0), ("warm", "second<7>", 1.0),
        ]  # fmt: skip
        for span in case.device_span or ():
            series = next(s for s in case.series if s.arrangement.cache == span.cache)
            buffers = series.arrangement.buffers
            assert span.count == -(-spans.CALLS // buffers) * buffers
            assert case.share_of_call(span) == pytest.approx(span.median / series.median)
        assert case.parts == case.device_span
    assert any(
        "by torch's profiler, 100 calls of each series, one at a time" in note for note in results.notes
    )


@pytest.mark.parametrize(
    ("trouble", "why"),
    [("PROFILER_BLIND", "the profiler saw no kernel"), ("PROFILER_DIES", "the worker exited with code 9")],
)
def test_a_profiler_in_trouble_costs_a_note_and_no_time(
    bench_set: Path, profiled, device, trouble: str, why: str
) -> None:
    profiled.setenv(trouble, "1")
    results = run(bench_set, device(), "tree_accept")
    assert results.exit_reason == ""
    [case] = results.cases
    assert case.outcome is Outcome.PASS and len(case.series) == 2 and case.device_span is None
    [note] = [note for note in results.notes if "Device span" in note]
    assert f"not measured ({case.case_id}: {why}" in note


def test_outputs_that_are_wrong_before_they_are_profiled_have_no_spans(
    bench_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "unavailable", lambda: "")
    with open_set(bench_set) as fixtures:
        case = next(fixtures.cases("tree_accept"))
    wrong = {name: value + 1 for name, value in case.expected.items()}  # type: ignore[operator]
    told = Observation("done", rounds=(wrong, {}))
    child = SimpleNamespace(
        load=lambda _: None, arrange=lambda *_: None, check=lambda: told, close=lambda: None
    )
    timed = replace(made().cases[0], case_id=case.case_id, device_span=None)
    [without], note = spans.with_spans([timed], lambda: child, lambda _: case)  # type: ignore[arg-type,return-value]
    assert without == timed
    assert f"not measured ({case.case_id}: before its spans were recorded: accept_index" in note


def test_without_a_case_that_was_timed_no_worker_is_started() -> None:
    def start() -> None:
        raise AssertionError("a worker for nothing")

    bad = [case for case in made().cases if not case.series]
    assert spans.with_spans(bad, start, lambda _: None) == (  # type: ignore[arg-type,return-value]
        tuple(bad), "Device span per kernel: not measured (no case was timed).",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("cuda = '13.0'\n", ""),
        ("cuda = None\n", "torch here is built without CUDA"),
        ("", "torch here is built without CUDA"),
        (None, "torch here does not say what it was built for"),
    ],
)
def test_whether_torch_can_profile_is_known_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, why: str
) -> None:
    (tmp_path / "__init__.py").write_text("raise SystemExit('imported')")
    if version is not None:
        (tmp_path / "version.py").write_text(version)
    spec = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(profiler, "find_spec", lambda _: spec)
    assert unavailable() == why


def test_torch_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "find_spec", lambda _: None)
    assert unavailable() == "torch is not installed"


def test_kernels_alone_are_launches_in_the_order_of_their_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_CUDA_COUNT", str(tmp_path / "count"))
    (tmp_path / "count").write_text("")
    module: dict[str, object] = {}
    exec(STAND_IN, module)
    monkeypatch.setitem(sys.modules, "torch.profiler", SimpleNamespace(**module))
    found, made = recorded(lambda: (tmp_path / "count").write_text("2\nf\n"))
    assert made == 4
    assert [(launch.name.split("::")[-1], launch.start) for launch in found] == [
        ("first(args)", 0), ("void second<7>(args)", 500),
        ("first(args)", 1000), ("void second<7>(args)", 1500),
    ]  # fmt: skip

    def refuse(activities: object) -> None:
        raise RuntimeError("CUPTI is in use")

    monkeypatch.setitem(
        sys.modules,
        "torch.profiler",
        SimpleNamespace(profile=refuse, ProfilerActivity=SimpleNamespace(CUDA=0)),
    )
    with pytest.raises(HarnessError, match="CUPTI is in use"):
        recorded(lambda: None)


def test_launches_become_spans() -> None:
    launches = [Launch("void a(int)", 0, 3000), Launch("b<2>(x)", 1, 1000)]
    launches += [Launch("void a(int)", 10 * i, 1000 * i) for i in range(1, 20)]
    [a, b] = spans_of(launches, "warm", 10)
    assert (a.cache, a.kernel, a.launches, a.count) == ("warm", "a", 2.0, 20)
    assert (a.min, a.median, a.p95) == pytest.approx((1e-6, 9.5e-6, 18e-6))
    assert a.seconds == pytest.approx(2 * 9.5e-6)
    assert (b.kernel, b.launches, b.min, b.median, b.p95) == ("b<2>", 0.1, 1e-6, 1e-6, 1e-6)
    assert spans_of([], "warm", 10) == []


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void ddtree::(anonymous namespace)::tree_build_kernel<512, true>(ddtree_args, bool)",
         "ddtree::tree_build_kernel<512, true>"),
        ("ddtree::<unnamed>::kv_commit_kernel(args, T, unsigned int)", "ddtree::kv_commit_kernel"),
        ("void f<void (*)(int)>(std::array<g(h), 2>)", "f<void (*)(int)>"),
        ("fill(int) [clone .isra.0]", "fill"),
        ("_Z9unmangledPf", "_Z9unmangledPf"),
        ("sm90_gemm_bf16", "sm90_gemm_bf16"),
        ("odd)", "odd)"),
        ("", ""),
    ],
)  # fmt: skip
def test_names_are_readable(name: str, shown: str) -> None:
    assert readable(name) == shown


def test_reports_show_the_parts_of_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text, page = (path.read_text() for path in write_bench(made(), tmp_path))
    assert "| `greedy_step/made/N9` | warm | `tree<&>` | 2 | 1.50 µs | 54.9% |" in text
    assert "may add up to more than the call" in text and "`verify_attn/made/N17` | warm | `attn`" not in text
    assert 'id="spans"' in page and "tree&lt;&amp;&gt;" in page and "<code>attn</code>" in page
    monkeypatch.setattr(bench_cli, "bench", lambda *_, **__: made())
    ran = CliRunner().invoke(bench_cli.command, ["f", "-t", "cuda", "--report", str(tmp_path / "again")])
    assert "1.50 us         2     54.9%" in ran.output and "tree<&>" in ran.output
