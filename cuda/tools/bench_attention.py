#!/usr/bin/env python3
"""Check and time verify_attn on mla rows against FlashInfer and torch. Needs a GPU and a built library.

    python3 cuda/tools/bench_attention.py build/libddtree_cuda.so --check
    python3 cuda/tools/bench_attention.py build/libddtree_cuda.so --out reports/gpu/attention

The first compares every configuration with a reference in float64, on ragged and hostile batches and several
cuts of the work. The second times every shape of the table, checks what it timed, and writes attention.json
and attention.md with a verdict for each bar; the exit code is 1 when a value is wrong.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attention_peers as peers
import attention_report
import numpy as np
import torch
from attention_inputs import Library, Problem, Shape

CONFIGS = {"auto": 0, "99KB": 2, "227KB": 3, "wgmma": 4}
TABLE = (
    *(
        Shape(1, heads, nodes, prefix)
        for heads in (64, 16, 8)
        for nodes in (17, 65, 257)
        for prefix in (1024, 8192, 32768)
    ),
    *(Shape(1, heads, nodes, 131072) for heads in (16, 8) for nodes in (17, 65)),
    Shape(1, 64, 65, 131072),
    Shape(8, 16, 17, 8192),
    Shape(32, 16, 17, 8192),
)
CHECKS = (  # shape, spare node slots
    (Shape(1, 8, 17, 0), 0), (Shape(1, 1, 1, 0), 3), (Shape(1, 8, 17, 1), 5), (Shape(1, 3, 40, 63, 7), 1),
    (Shape(1, 16, 65, 64, 1), 0), (Shape(1, 64, 65, 65, 256), 2), (Shape(1, 8, 65, 1000, 13), 7),
    (Shape(1, 1, 257, 500, 64), 0), (Shape(1, 128, 33, 300, 64), 31), (Shape(1, 16, 257, 1024), 0),
    (Shape(1, 1, 1025, 70, 33), 0), (Shape(1, 2, 1025, 0, 64), 0), (Shape(1, 8, 65, 8192), 0),
    (Shape(1, 8, 17, 1024), 0), (Shape(1, 8, 17, 8192), 0), (Shape(1, 16, 17, 8192), 3),
    (Shape(1, 16, 65, 1024), 0),
    (Shape(5, 8, 17, 777, 19), 3), (Shape(33, 4, 9, 130, 64), 0), (Shape(300, 2, 5, 40, 16), 1),
    (Shape(8, 16, 17, 2048), 0), (Shape(3, 64, 65, 4096), 0),
)  # fmt: skip
LAUNCHES, LONG_LAUNCHES, LONG_US = 40, 10, 100.0
ROTATION_BYTES = 300 << 20  # five times the L2
MOST_BUFFERS = 256
METHOD = (
    f"A time is a replay of a CUDA graph of {LAUNCHES} launches on one buffer ({LONG_LAUNCHES} where one "
    f"takes more than {LONG_US:.0f} us, 1 for sdpa), divided by their number; min, median and p95 over the "
    "replays. "
    "Contenders of a shape take turns, each with a replay that is not timed and one that is.",
    f"`rotating` launches once on each of several buffers, {ROTATION_BYTES >> 20} MB together or "
    f"{MOST_BUFFERS} of them.",
    "Random normal bf16 data, random trees, page 64. FLOP = 2 rows (prefix + nodes) 1088.",
    "fa2 and fa3 are FlashInfer's BatchMLAPagedAttentionWrapper with its causal flag: it takes no tree mask. "
    "`prefix` is its unmasked pass over the prefix alone, `cascade` that with tail and merge in torch, "
    "`sdpa` torch's scaled_dot_product_attention with a boolean mask.",
    "`allowance`: largest error of 64 sampled rows of each request against float64, as a share of what the "
    "contract allows.",
)
Call = Callable[[], None]


class Replay:
    """A graph of some calls."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.times: list[float] = []
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for call in calls[:2]:
                call()
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph, stream=stream):
                for call in calls:
                    call()
        self.graph.replay()
        torch.cuda.synchronize()

    def run(self) -> None:
        """Times one replay, in microseconds of one call, after one that is not timed."""
        self.graph.replay()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        self.times.append(begin.elapsed_time(end) * 1000 / len(self.calls))

    def summary(self) -> dict[str, float]:
        """Minimum, median, 95th percentile."""
        low, middle, high = np.quantile(self.times, (0.0, 0.5, 0.95))
        return {"min": round(low, 2), "median": round(middle, 2), "p95": round(high, 2)}


def check(library: Library, config: int) -> bool:
    """Values, dead rows, repeatability, other cuts of the work, on hostile pools."""
    good = True
    for shape, spare in CHECKS:
        problem = Problem(shape, seed=shape.rows, spare_nodes=spare, hostile=True)
        found = []
        for shares in (0, 1, 7, 133, 300) if shape.rows < 5000 else (0, 61):
            call = library.bind(problem.args(), config, shares)
            results = []
            for _ in range(2):
                problem.out.fill_(3.0)
                problem.lse.fill_(3.0)
                call()
                torch.cuda.synchronize()
                results.append((problem.out.clone(), problem.lse.clone()))
            same = all(
                torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(*results, strict=True)
            )
            worst = problem.worst(*results[0])
            found.append(f"{worst:.2f}{'' if same else ' NOT REPEATABLE'}")
            good &= same and worst <= 1.0
        print(f"  {shape!s:22} share of allowance {' '.join(found)}", flush=True)
    return good


class Contenders:
    """Everything that is timed on one shape."""

    def __init__(self, library: Library, shape: Shape, backends: Sequence[str]) -> None:
        self.library, self.problem = library, Problem(shape)
        self.allowance: dict[str, float] = {}
        self.replays: dict[str, Replay] = {}
        bytes_each = self.problem.kv.nbytes
        self.buffers = min(-(-ROTATION_BYTES // bytes_each), MOST_BUFFERS)
        self.pools = [self.problem.kv] + [self.problem.kv.clone() for _ in range(self.buffers - 1)]
        self._add_ours(self.pools)
        self._add_peers(self.pools, backends)

    def _add(self, name: str, bind: Callable[[int], Call], rotates: bool) -> None:
        replay = Replay([bind(0)] * LONG_LAUNCHES)
        replay.run()
        if replay.times.pop() <= LONG_US:
            replay = Replay([bind(0)] * LAUNCHES)
        self.replays[name] = replay
        if rotates:
            self.replays[f"{name} rotating"] = Replay([bind(index) for index in range(self.buffers)])

    def _add_ours(self, pools: Sequence[torch.Tensor]) -> None:
        problem, library = self.problem, self.library
        for name, config in (("ours", "auto"), ("ours 99KB", "99KB")):
            workspace = library.workspace(problem.args(), CONFIGS[config], 0)
            calls = [library.bind(problem.args(pool), CONFIGS[config], 0, workspace) for pool in pools]
            problem.out.fill_(3.0)
            calls[0]()
            self.allowance[name] = problem.worst(problem.out, problem.lse)
            self._add(name, calls.__getitem__, rotates=name == "ours")

    def _add_peers(self, pools: Sequence[torch.Tensor], backends: Sequence[str]) -> None:
        problem, shape = self.problem, self.problem.shape
        split = [peers.split_pool(pool) for pool in pools] if backends else []
        for backend in backends:
            wrapper = peers.FlashInfer(problem, backend, True, shape.prefix + shape.nodes)
            self._add(backend, lambda index, to=wrapper: to.bind(*split[index]), rotates=backend == "fa2")
        if backends and shape.batch == 1:
            prefix = peers.FlashInfer(problem, backends[0], False, shape.prefix)
            self._add("prefix only", lambda _: prefix.bind(*split[0], lse=True), rotates=False)
            cascade = peers.cascade(problem, backends[0], *split[0])
            self._add("cascade", lambda _: cascade, rotates=False)
        if shape.batch == 1 and shape.nodes <= 65 and shape.prefix <= 32768:
            self.replays["sdpa"] = Replay([peers.sdpa(problem, problem.kv)])

    def measure(self, replays: int) -> dict[str, Any]:
        """A row of the report."""
        shape = self.problem.shape
        for _ in range(replays):
            for replay in self.replays.values():
                replay.run()
        self.replays["ours"].graph.replay()
        megahertz = torch.cuda.clock_rate()  # while it runs
        torch.cuda.synchronize()
        times = {name: replay.summary() for name, replay in self.replays.items()}
        tflops = shape.flop / times["ours"]["median"] / 1e6
        return {
            "shape": str(shape), "batch": shape.batch, "heads": shape.heads, "nodes": shape.nodes,
            "prefix": shape.prefix, "rows": shape.rows, "gflop": round(shape.flop / 1e9, 3),
            "times": times, "tflops": round(tflops, 1),
            "share_of_ceiling": round(tflops / attention_report.CEILING, 3),
            "share_of_allowance": round(max(self.allowance.values()), 3),
            "buffers": self.buffers, "sm_mhz": megahertz,
        }  # fmt: skip


def matmul_tflops() -> float:
    """The ceiling, measured: a bf16 product of 8,192 cubed, median of 10."""
    a, b = (torch.randn(8192, 8192, device="cuda").bfloat16() for _ in range(2))
    replay = Replay([lambda: torch.matmul(a, b)])
    for _ in range(10):
        replay.run()
    return round(2 * 8192**3 / replay.summary()["median"] / 1e6, 1)


def description(options: argparse.Namespace, replays: int) -> dict[str, Any]:
    """Where and how a report was made."""
    fields = "name,driver_version,clocks.max.sm,clocks.max.mem,power.limit"
    query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    smi = [part.strip() for part in lines[0].split(",")]
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    return {
        "schema": "ddtree-attention", "schema_version": 1,
        "command": shlex.join(["python3", *sys.argv]), "library": options.library,
        "device": f"{smi[0]}, {processors} multiprocessors, driver {smi[1]}, CUDA {torch.version.cuda}, "
                  f"torch {torch.__version__}, FlashInfer {peers.VERSION}",
        "clocks": {"max_sm": smi[2], "max_memory": smi[3], "power_limit": smi[4]},
        "method": list(METHOD), "replays": replays, "ceiling_tflops": attention_report.CEILING,
        "matmul_tflops": matmul_tflops(),
    }  # fmt: skip


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--configs", nargs="+", default=["wgmma", "99KB", "227KB"], choices=CONFIGS,
                        help="what --check takes")  # fmt: skip
    parser.add_argument("--out", type=Path, help="report without its suffixes")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--only", nargs="+", default=[], help="shapes, as printed")
    options = parser.parse_args()
    library = Library(options.library)
    good = True
    if options.check:
        for name in options.configs:
            print(f"check {name}", flush=True)
            good &= check(library, CONFIGS[name])
    if options.out is not None:
        backends, refused = peers.backends()
        report = description(options, options.replays) | {"not_run": refused, "rows": []}
        for shape in TABLE:
            if options.only and str(shape) not in options.only:
                continue
            row = Contenders(library, shape, backends).measure(options.replays)
            report["rows"].append(row)
            medians = ", ".join(f"{name} {times['median']:.1f}" for name, times in row["times"].items())
            print(f"{row['shape']:14} {row['tflops']:.0f} TFLOP/s, {medians}", flush=True)
            torch.cuda.empty_cache()
        for verdict in attention_report.write(report, options.out):
            worst = f"{verdict.worst} at {verdict.worst_shape}"
            print(f"{verdict.verdict:12} {verdict.bar}: {worst} {' '.join(verdict.missed)}")
        good &= all(row["share_of_allowance"] <= 1.0 for row in report["rows"])
    print("all values within the allowance" if good else "WRONG VALUES")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
