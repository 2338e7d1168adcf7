#!/usr/bin/env python3
"""Run a fixture set on the cuda target under compute-sanitizer. Needs a GPU, nvcc and a built library.

For each tool a canary goes first: a library that is right but for one defect of the tool's kind, run through
the same command. A tool that misses its canary proves nothing, and the run fails. Writes OUT.json, OUT.md
and a log of each run. Exit code: 0 clean, 1 findings or a missed canary, 4 no GPU, compiler or tool.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
FOUND = 97  # the exit code that is asked of the tool where it finds something
EXIT_CLEAN, EXIT_FINDINGS, EXIT_ENVIRONMENT = 0, 1, 4
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
_REFUSALS = ("Device not supported", "Unable to find injection library", "Failed to initialize")


@dataclass(frozen=True)
class Run:
    """One command under one tool."""

    tool: str
    what: str  # canary or set
    good: bool
    reason: str
    exit_code: int
    findings: int
    cases: int
    passed: int
    seconds: float
    first: str  # the first line that the tool found


class Unusable(Exception):
    """This machine cannot serve."""


def main() -> int:
    """Run all tools; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures/smoke"))
    parser.add_argument("--library", type=Path, default=Path("build/libddtree_cuda.so"))
    parser.add_argument("--out", type=Path, default=Path("reports/gpu/sanitizer"), help="without ending")
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma-separated [default: %(default)s]")
    parser.add_argument("--arch", default="native", help="nvcc -arch of the canary [default: %(default)s]")
    parser.add_argument(
        "--timeout", type=float, default=1800.0, help="seconds of one run [default: %(default)g]"
    )
    parser.add_argument("verify", nargs="*", metavar="VERIFY_OPTION", help="after --: for `harness verify`")
    given = parser.parse_args()
    tools = given.tools.split(",")
    if unknown := sorted(set(tools) - set(TOOLS)):
        parser.error(f"unknown tool {unknown[0]}; there are {', '.join(TOOLS)}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        sanitizer, canary = find_sanitizer(), build_canary(given.library, given.arch)
        runs = [run for tool in tools for run in both(sanitizer, tool, canary, given)]
    except Unusable as error:
        print(f"sanitize-gpu: {error}", file=sys.stderr)
        return EXIT_ENVIRONMENT
    write(given.out, sanitizer, runs)
    good = all(run.good for run in runs)
    print(f"{'CLEAN' if good else 'FAIL'}: {given.out}.md")
    return EXIT_CLEAN if good else EXIT_FINDINGS


def find_sanitizer() -> str:
    """The path of compute-sanitizer."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    for place in ("compute-sanitizer", f"{home}/bin/compute-sanitizer"):
        if found := shutil.which(place):
            return found
    raise Unusable("no compute-sanitizer; put the CUDA toolkit's bin folder on PATH or set CUDA_HOME")


def build_canary(library: Path, arch: str) -> Path:
    """The canary's library, beside the real one."""
    if not library.is_file():
        raise Unusable(f"{library} is not there; build it with `cmake -S cuda -B build -DDDTREE_CUDA=ON`")
    if not shutil.which("nvcc"):
        raise Unusable("no nvcc for the canary; put the CUDA toolkit's bin folder on PATH")
    made = library.parent / "libddtree_canary.so"
    command = ["nvcc", "-std=c++17", f"-arch={arch}", "-lineinfo", "-shared", "-Xcompiler=-fPIC"]
    command += [
        f"-I{ROOT / 'cuda' / 'include'}",
        str(ROOT / "cuda" / "tools" / "canary.cu"),
        "-o",
        str(made),
        "-ldl",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unusable(f"the canary cannot be built: {last_line(done.stderr)}")
    return made


def both(sanitizer: str, tool: str, canary: Path, given: argparse.Namespace) -> list[Run]:
    """The canary and the set under one tool."""
    environment = {"DDTREE_REAL": str(given.library.resolve()), "DDTREE_CANARY": tool}
    first = ["--case", first_case(given.fixtures, "tree_accept")]
    return [
        under(sanitizer, tool, "canary", str(canary), first, given, environment),
        under(sanitizer, tool, "set", "cuda", given.verify, given, {}),
    ]


def under(
    sanitizer: str,
    tool: str,
    what: str,
    target: str,
    more: Sequence[str],
    given: argparse.Namespace,
    environment: Mapping[str, str],
) -> Run:
    """One verify under one tool. The target runs in a worker, a child: all processes are watched."""
    report = given.out.parent / f"{given.out.name}-{tool}" / what
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all"]
    command += ["--require-cuda-init", "no", "--print-limit", "20"]
    command += [sys.executable, "-m", "harness", "verify", str(given.fixtures), "--target", target]
    command += ["--jobs", "1", "--timeout", "600", "--report", str(report), *more]
    shutil.rmtree(report, ignore_errors=True)
    report.mkdir(parents=True)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    started = time.monotonic()
    with open(report / "log.txt", "w+b") as log:
        try:
            variables = {**os.environ, **environment, "PYTHONPATH": paths}
            done = subprocess.run(command, stdout=log, stderr=log, timeout=given.timeout, env=variables)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = -1
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    run = judged(tool, what, code, text, results_of(report), time.monotonic() - started)
    print(f"{'ok  ' if run.good else 'FAIL'} {tool:10}{what:8}{run.seconds:7.1f} s  {run.reason}", flush=True)
    return run


def judged(tool: str, what: str, code: int, text: str, results: Mapping[str, int], seconds: float) -> Run:
    """What a run says about the tool (canary) or the kernels (set)."""
    for refusal in _REFUSALS:
        if refusal in text:
            raise Unusable(f"compute-sanitizer cannot work on this machine ({refusal}); use another one")
    findings = sum(int(number) for number in _SUMMARY.findall(text))
    lines = [line.removeprefix("=========").strip() for line in text.splitlines() if line.startswith("=====")]
    found = [
        x for x in lines if re.match(r"(Invalid|Error|Race|Uninit|Barrier|Potential|Program hit|Host)", x)
    ]
    cases, passed = results.get("planned", 0), results.get("PASS", 0)
    if what == "canary":
        good = code != 0 and findings > 0
        reason = f"found its canary, exit code {code}" if good else f"missed its canary, exit code {code}"
    else:
        good = code == 0 and findings == 0 and bool(_SUMMARY.search(text)) and passed > 0
        reason = f"{findings} findings in {passed} of {cases} cases, exit code {code}"
        if code == -1:
            reason = "took too long and was ended; narrow it with -- -k KERNEL"
        elif not _SUMMARY.search(text):
            reason += "; the tool wrote no summary"
    return Run(tool, what, good, reason, code, findings, cases, passed, round(seconds, 1), (found or [""])[0])


def results_of(report: Path) -> dict[str, int]:
    """Planned cases and totals of a verify; empty where it wrote none."""
    try:
        body = json.loads((report / "results.json").read_text(encoding="utf-8"))
        return {"planned": int(body["planned"]), **{k: int(v) for k, v in body["totals"].items()}}
    except (OSError, ValueError, KeyError):
        return {}


def first_case(fixtures: Path, kernel: str) -> str:
    """The id of the first case of a kernel."""
    command = [sys.executable, "-m", "harness", "list", str(fixtures), "-k", kernel, "--json"]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    if done.returncode != 0:
        raise Unusable(f"{fixtures} cannot be listed: {last_line(done.stderr)}")
    return str(json.loads(done.stdout)[0]["case_id"])


def write(out: Path, sanitizer: str, runs: Sequence[Run]) -> None:
    """The summary, for programs and for people."""
    version = subprocess.run([sanitizer, "--version"], capture_output=True, text=True).stdout
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True).stdout if shutil.which(query[0]) else ""
    about = {"sanitizer": last_line(version), "device": last_line(found)}
    body = {"schema": "ddtree-sanitizer", "schema_version": 1, **about, "runs": [asdict(run) for run in runs]}
    out.with_suffix(".json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    rows = [
        f"| {r.tool} | {r.what} | {'ok' if r.good else 'FAIL'} | {r.reason} | {r.seconds} s |" for r in runs
    ]
    head = f"# compute-sanitizer\n\n{about['device']}, {about['sanitizer']}\n\n"
    table = (
        "| tool | run | verdict | what was seen | time |\n|---|---|---|---|---:|\n" + "\n".join(rows) + "\n"
    )
    lines = [f"\n* {r.tool}, {r.what}: {r.first}" for r in runs if r.first]
    text = head + table + ("".join(lines) + "\n" if lines else "")
    out.with_suffix(".md").write_text(text, encoding="utf-8")


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


if __name__ == "__main__":
    sys.exit(main())
