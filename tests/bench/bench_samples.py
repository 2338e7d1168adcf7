"""A bench and its schema as the tests of its files want them: no target was timed."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from harness.bench_results import (
    Arrangement,
    BenchCase,
    BenchResults,
    Ceilings,
    Clocks,
    DeviceSpan,
    Floor,
    Series,
    Stage,
)
from harness.results import Environment, Outcome, RunInfo, TargetInfo


def schema(name: str) -> dict[str, Any]:
    return json.loads((resources.files("harness") / name).read_text())


def series(cache: str, base: float, count: int = 30) -> Series:
    how = Arrangement(cache, "graph replay", 40, 40 if cache == "cold" else 1, 1 << 28, 50 << 20,
                      "rotation" if cache == "cold" else "")  # fmt: skip
    clocks = Clocks((1980, 1965), (3201, 3201), (40, 41), ("software power cap",))
    return Series(how, tuple(base * (1 + (i * 7 % 13) / 500) for i in range(count)), clocks)


def spans(kernel: str) -> tuple[DeviceSpan, ...] | None:
    """Several kernels of a step, one of an attention, none of what was not profiled."""
    names = {"greedy_step": ("tree<&>", "attn"), "verify_attn": ("attn",)}.get(kernel, ())
    made = [DeviceSpan("warm", name, 2.0, 1e-6, 1.5e-6, 2e-6, 500) for name in names]
    return tuple(made) or None


def made() -> BenchResults:
    cases = []
    for kernel, sizes in (("tree_build", (17, 65, 257)), ("verify_attn", (17, 65)), ("greedy_step", (9, 17))):
        for number, size in enumerate(sizes):
            parts = ("tree_build", "verify_attn", "tree_accept", "kv_commit")
            stages = tuple(Stage(p, (3e-6, 4e-6)) for p in parts) if kernel == "greedy_step" else ()
            cases.append(
                BenchCase(
                    f"{kernel}/made/N{size}",
                    kernel,
                    "made",
                    (),
                    Outcome.PASS,
                    "",
                    f"harness bench --case {size}",
                    {"B": 1 + number, "N": size},
                    Floor(10**6, 10**5, 10**9, size, 2e-6, 1e-6),
                    (series("cold", size * 1e-6), series("warm", size * 6e-7)),
                    stages,
                    spans(kernel),
                )
            )
    bad = "tree_accept/<b>made</b>/1"
    cases.append(
        BenchCase(
            bad,
            "tree_accept",
            "made",
            (),
            Outcome.WRONG_VALUES,
            "after timing: <i>accept_len</i>",
            "r",
            {},
            Floor(1, 1, 0, 1, None, None),
            (),
            (),
            None,
        )
    )
    run = RunInfo("2030-01-01T00:00:00Z", "harness bench f", "smoke", "f", "1.0.0", "1.0", "ab" * 32, 1.5, {})
    target = TargetInfo("cuda", "library", "made", "device", "event", (), None)
    return BenchResults(
        run, Environment({"device": "Some GPU"}), target, Ceilings(4e12, "copy", None, "none"), len(cases),
        tuple(cases), ("a note",), 1, "1 WRONG_VALUES",
    )  # fmt: skip
