#!/usr/bin/env python3
"""Check and time verify_attn on mla rows against FlashInfer and torch. Needs a GPU and a built library.

Times are medians of graph replays divided by the launches in the graph. `warm` launches ten times on one
buffer; `cold` rotates over buffers of at least five times the L2 together (or --most-buffers of them).
FlashInfer runs with its causal flag, since it takes no tree mask; ours runs with a random tree.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import attention_peers as peers
import torch
from attention_inputs import Library, Problem, Shape

CONFIGS = {"auto": 0, "simt": 1, "99KB": 2, "227KB": 3, "wgmma": 4}
PREFIXES = (1024, 8192, 32768)
TABLE = (
    *(
        Shape(1, heads, nodes, prefix)
        for heads in (64, 16, 8)
        for nodes in (17, 65, 257)
        for prefix in PREFIXES
    ),
    Shape(8, 16, 17, 8192),
    Shape(32, 16, 17, 8192),
    Shape(1, 64, 65, 131072),
)
CHECKS = (  # shape, spare node slots
    (Shape(1, 8, 17, 0), 0), (Shape(1, 1, 1, 0), 3), (Shape(1, 8, 17, 1), 5), (Shape(1, 3, 40, 63, 7), 1),
    (Shape(1, 16, 65, 64, 1), 0), (Shape(1, 64, 65, 65, 256), 2), (Shape(1, 8, 65, 1000, 13), 7),
    (Shape(1, 1, 257, 500, 64), 0), (Shape(1, 128, 33, 300, 64), 31), (Shape(1, 16, 257, 1024), 0),
    (Shape(1, 1, 1025, 70, 33), 0), (Shape(1, 2, 1025, 0, 64), 0), (Shape(1, 8, 65, 8192), 0),
    (Shape(5, 8, 17, 777, 19), 3), (Shape(33, 4, 9, 130, 64), 0), (Shape(300, 2, 5, 40, 16), 1),
    (Shape(8, 16, 17, 2048), 0), (Shape(3, 64, 65, 4096), 0),
)  # fmt: skip
L2_BYTES = 60 << 20


def replay_us(calls: Sequence[Callable[[], None]], replays: int) -> float:
    """Microseconds of one call, from replays of a graph of all of them."""
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / len(calls))
    return peers.median(times)


def check(library: Library, config: int, count: int) -> bool:
    """Values, dead rows, repeatability, other cuts of the work, on hostile pools."""
    good = True
    for shape, spare in CHECKS[:count]:
        problem = Problem(shape, seed=shape.rows, spare_nodes=spare, hostile=True)
        shares_list = (0, 1, 7, 133, 300) if shape.rows < 5000 else (0, 61)
        shares_used = []
        for shares in shares_list:
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
            shares_used.append(f"{worst:.2f}{'' if same else ' NOT REPEATABLE'}")
            good &= same and worst <= 1.0
        print(f"  {shape!s:22} share of allowance {' '.join(shares_used)}", flush=True)
    return good


class Bound:
    """Our calls on different pools, one workspace for all."""

    def __init__(self, library: Library, problem: Problem, config: int, shares: int) -> None:
        self.library, self.problem, self.config, self.shares = library, problem, config, shares
        self.workspace = library.workspace(problem.args(), config, shares)

    def __call__(self, pool: torch.Tensor) -> Callable[[], None]:
        """One call on `pool`."""
        return self.library.bind(self.problem.args(pool), self.config, self.shares, self.workspace)


def measure(library: Library, shape: Shape, options: argparse.Namespace) -> dict[str, object]:
    """All times of one shape."""
    problem = Problem(shape)
    row: dict[str, object] = {"shape": str(shape), "rows": shape.rows, "gflop": shape.flop / 1e9}
    bytes_each = problem.kv.nbytes + problem.q.nbytes + problem.out.nbytes
    buffers = min(-(-5 * L2_BYTES // bytes_each), options.most_buffers)
    pools = [problem.kv] + [problem.kv.clone() for _ in range(buffers - 1)] if options.cold else [problem.kv]
    row["buffers"] = len(pools)

    def both(
        name: str, bind: Callable[[torch.Tensor], Callable[[], None]], cold: bool = options.cold
    ) -> None:
        warm = bind(pools[0])
        row[f"{name} warm"] = replay_us([warm] * 10, options.replays)
        if cold:
            row[f"{name} cold"] = replay_us([bind(pool) for pool in pools], options.replays)

    for name in options.configs:
        for shares in options.shares:
            label = name if shares == 0 else f"{name}/{shares}"
            bind = Bound(library, problem, CONFIGS[name], shares)
            bind(problem.kv)()
            row[f"{label} allowance"] = problem.worst(problem.out, problem.lse)
            both(label, bind)
    if options.peers and peers.HAS_FLASHINFER:
        split = [peers.split_pool(pool) for pool in pools]
        for backend in options.backends:
            wrapper = peers.FlashInfer(problem, backend, True, shape.prefix + shape.nodes)
            bound = {id(pool): wrapper.bind(*parts) for pool, parts in zip(pools, split, strict=True)}
            both(backend, lambda pool, bound=bound: bound[id(pool)])
        if shape.batch == 1 and options.cascade:
            prefix = peers.FlashInfer(problem, options.backends[0], False, shape.prefix)
            row["prefix only warm"] = replay_us([prefix.bind(*split[0], lse=True)] * 10, options.replays)
            call = peers.cascade(problem, options.backends[0], *split[0])
            row["cascade warm"] = replay_us([call] * 10, options.replays)
    if options.sdpa and shape.batch == 1 and shape.nodes <= 65 and shape.prefix <= 32768:
        row["sdpa warm"] = replay_us([peers.sdpa(problem, problem.kv)], 5)
    return row


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library")
    parser.add_argument("--configs", nargs="+", default=["auto"], choices=CONFIGS)
    parser.add_argument("--shares", nargs="+", type=int, default=[0])
    parser.add_argument("--backends", nargs="+", default=["fa2"])
    parser.add_argument("--replays", type=int, default=15)
    parser.add_argument("--most-buffers", type=int, default=256)
    parser.add_argument("--checks", type=int, default=len(CHECKS), help="how many shapes --check takes")
    parser.add_argument("--only", nargs="+", default=[], help="shapes, as printed")
    parser.add_argument("--json", type=Path)
    for flag in ("check", "cold", "peers", "cascade", "sdpa"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--no-table", action="store_true")
    options = parser.parse_args()
    library = Library(options.library)
    good = True
    if options.check:
        for name in options.configs:
            print(f"check {name}", flush=True)
            good &= check(library, CONFIGS[name], options.checks)
    rows = []
    for shape in () if options.no_table else TABLE:
        if options.only and str(shape) not in options.only:
            continue
        row = measure(library, shape, options)
        rows.append(row)
        cells = []
        for key, value in row.items():
            if key.endswith(("warm", "cold")):
                rate = shape.flop / float(value) / 1e6  # type: ignore[arg-type]
                cells.append(f"{key} {value:.1f} ({rate:.0f})")
            elif key.endswith("allowance"):
                good &= float(value) <= 1.0  # type: ignore[arg-type]
                cells.append(f"[{value:.2f}]")
        print(f"{row['shape']:14} {' | '.join(cells)}", flush=True)
        torch.cuda.empty_cache()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    print("all values within the allowance" if good else "WRONG VALUES")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
