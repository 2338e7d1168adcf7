#!/usr/bin/env python3
"""Time tree_build, tree_accept, kv_commit, their chain and the greedy step beside their peers, in one run.

    python cuda/tools/bench_trees.py build/libddtree_cuda.so --plain plain/libddtree_cuda.so

Writes trees.json and trees.md. Every buffer that is timed is compared with the references before and after;
a wrong one ends the run without a time (exit code 1). Needs a GPU and nvcc. On the emulated library it runs
too, without the peers that need a GPU; its times say nothing then.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import tree_runs  # noqa: E402
from tree_peers import load_floors  # noqa: E402
from tree_results import Measurement, Run, ratios_of, write  # noqa: E402
from tree_series import Plan, Series, WrongResult  # noqa: E402

from harness.bench.clocks import Monitor  # noqa: E402
from harness.runner.environment import machine_facts  # noqa: E402
from harness.runner.gpu_lock import alone_on_gpu  # noqa: E402
from harness.targets import open_target  # noqa: E402
from harness.targets.base import Target  # noqa: E402

METHOD = (
    "Times are microseconds of one call. graph replay: events around the replay of a captured graph, divided "
    "by the calls in it; the stream is held until events and graph are queued. not held: the host's own "
    "launch of the graph lies between the events.",
    "Several calls in a graph follow each other as the library launches them: a kernel may begin before the "
    "one in front of it ends. Inputs are in L2 unless it says otherwise. The first 5 samples are not kept.",
    "Every input set is compared with the references before and after it is timed: outputs, inputs, guards. "
    "Where a call works in place, the second comparison follows one more call on buffers written anew.",
)


def measure(library: Path, plain: Path | None, plan: Plan, only: str) -> Run:
    """Everything, in one process. WrongResult where a buffer does not hold what it should."""
    started, clock = datetime.now(UTC), time.perf_counter()
    target = open_target(str(library))
    series = Series(target, plan, only, show)
    tools = series.watch.tools
    monitor = Monitor(tools.bus_id if tools else "")
    before = reading(monitor)
    floors = load_floors() if tools else None
    if floors is not None:
        tree_runs.empties(series, floors)
    tree_runs.builds(series)
    tree_runs.hosts(series)
    tree_runs.accepts(series, floors)
    tree_runs.commits(series, floors)
    tree_runs.steps(series, "greedy_step")
    libraries = {library.name: library_facts(target)}
    measurements = series.measurements
    if plain is not None:
        other = Series(open_target(str(plain)), plan, only, show)
        tree_runs.steps(other, "greedy_step without dependent launches")
        libraries["without dependent launches"] = library_facts(other.target)
        measurements += other.measurements
    return Run(
        command=(Path(sys.argv[0]).name, *sys.argv[1:]),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 1),
        facts={**machine_facts(), **target.identity.facts},
        libraries=libraries,
        clocks={"before": before, "after": reading(monitor)},
        method=METHOD,
        measurements=tuple(measurements),
        ratios=ratios_of(measurements),
    )


def reading(monitor: Monitor) -> dict[str, Any]:
    """Clocks, temperature and throttle reasons, or why there are none."""
    now = monitor.read()
    if now is None:
        return {"unavailable": monitor.unavailable}
    return asdict(now)


def library_facts(target: Target) -> dict[str, str]:
    """What a library says of itself, and its hash."""
    info = target.identity.info
    return {"description": info.description, "sha256": info.library_sha256 or ""}


def show(m: Measurement) -> None:
    """One line as it comes."""
    verdict = "" if m.bar_us is None else f"  bar {m.bar_us:g} {'met' if m.met else 'MISSED'}"
    print(f"{m.name:<44} {m.median_us:9.2f} {m.p95_us:9.2f}{verdict}", flush=True)


def main() -> int:
    """Command line; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", type=Path, help="libddtree_cuda.so")
    parser.add_argument("--plain", type=Path, help="the same, built with -DDDTREE_PLAIN_LAUNCHES")
    parser.add_argument("--only", default="", help="measurements whose name contains this")
    parser.add_argument(
        "--out", type=Path, default=Path("reports/gpu/trees"), help="folder [default: %(default)s]"
    )
    options = parser.parse_args()
    try:
        with alone_on_gpu(lambda line: print(line, file=sys.stderr)):
            run = measure(options.library, options.plain, Plan(), options.only)
    except WrongResult as wrong:
        print(f"bench_trees: {wrong}", file=sys.stderr)
        return 1
    write(options.out, run)
    for ratio in run.ratios:
        verdict = "" if ratio.bar is None else f", bar {ratio.bar:g} {'met' if ratio.met else 'MISSED'}"
        print(f"{ratio.slower} / {ratio.faster}: {ratio.times:.1f}{verdict}")
    print(f"{options.out}/trees.md, {run.seconds:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
