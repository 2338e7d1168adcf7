"""The wrapper of compute-sanitizer: what it takes for clean, and that its canary can be built."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "cuda" / "tools" / "sanitize_gpu.py"
spec = importlib.util.spec_from_file_location("sanitize_gpu", SCRIPT)
assert spec is not None and spec.loader is not None
tool = importlib.util.module_from_spec(spec)
sys.modules["sanitize_gpu"] = tool  # its dataclass looks there
spec.loader.exec_module(tool)

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
FOUND = "========= Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 1 error\n"
RACE = "========= Error: Race reported between\n========= RACECHECK SUMMARY: 1 hazard displayed (1 error)\n"
ALL = {"planned": 9, "PASS": 9}


def good(what: str, code: int, text: str, results: dict[str, int] = ALL) -> bool:
    return bool(tool.judged("memcheck", what, code, text, results, 1.0).good)


def test_a_set_is_clean_only_where_the_tool_looked_and_found_nothing() -> None:
    assert good("set", 0, CLEAN)
    assert not good("set", 97, FOUND)
    assert not good("set", 0, FOUND)  # a wrapper that trusts the exit code alone
    assert not good("set", 0, CLEAN + FOUND)  # one of several processes
    assert not good("set", 0, "PASS (1.0 s)\n")  # nobody looked
    assert not good("set", 1, CLEAN)  # the kernels are wrong
    assert not good("set", 0, CLEAN, {})  # no case was run
    assert not good("set", 0, CLEAN, {"planned": 9, "PASS": 0})
    assert not good("set", -1, CLEAN)


def test_a_canary_must_be_found() -> None:
    assert good("canary", 97, FOUND, {})
    assert good("canary", 97, RACE)
    assert not good("canary", 0, CLEAN)
    assert not good("canary", 0, FOUND)  # found, but the exit code hides it
    assert not good("canary", 1, CLEAN)  # failed for another reason


def test_what_was_found_is_quoted() -> None:
    run = tool.judged("racecheck", "set", 97, RACE, ALL, 1.0)
    assert run.first == "Error: Race reported between"
    assert run.reason == "1 findings in 9 of 9 cases, exit code 97"


def test_a_machine_that_cannot_serve_is_no_finding() -> None:
    with pytest.raises(tool.Unusable, match="Device not supported"):
        tool.judged("memcheck", "canary", 1, "========= Error: Device not supported\n", {}, 1.0)


def run_script(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--out", str(tmp_path / "out"), *arguments]
    variables = {**os.environ, "PATH": str(tmp_path), "CUDA_HOME": str(tmp_path)}
    return subprocess.run(command, capture_output=True, text=True, env=variables)


def test_without_a_gpu(tmp_path: Path) -> None:
    done = run_script(tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith("sanitize-gpu: no compute-sanitizer; ")
    (tmp_path / "compute-sanitizer").write_text("#!/bin/sh\n")
    (tmp_path / "compute-sanitizer").chmod(0o755)
    done = run_script(tmp_path, "--library", str(tmp_path / "absent.so"))
    assert (done.returncode, "build it with" in done.stderr) == (4, True)
    assert run_script(tmp_path, "--tools", "memcheck,lint").returncode == 2


FAKE = """#!{python}
import os, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("Version 1.2"); sys.exit(0)
assert words[words.index("--target-processes") + 1] == "all"
tool, code = words[words.index("--tool") + 1], int(words[words.index("--error-exitcode") + 1])
program = words[words.index(sys.executable):] if sys.executable in words else words[-1:]
at = program.index("--target") + 1
canary, program[at] = program[at] != "cuda", "cpu"
done = subprocess.run(program)
found = canary and os.environ["DDTREE_CANARY"] == tool and tool != os.environ.get("DEAF")
print("========= ERROR SUMMARY: %d errors" % found)
sys.exit(code if found else done.returncode)
"""


@pytest.mark.parametrize("deaf", ["", "racecheck"])
def test_the_whole_way_with_a_stand_in(
    tmp_path: Path, small_set: Path, monkeypatch, capsys, deaf: str
) -> None:
    """A stand-in for the tool runs the real verify on the emulated library."""
    fake = tmp_path / "compute-sanitizer"
    fake.write_text(FAKE.format(python=sys.executable))
    fake.chmod(0o755)
    library = tmp_path / "libddtree_cuda.so"
    library.write_bytes(b"")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DEAF", deaf)
    monkeypatch.setattr(tool, "build_canary", lambda library, arch: tmp_path / "libddtree_canary.so")
    arguments = ["--fixtures", str(small_set), "--library", str(library), "--out", str(tmp_path / "r" / "s")]
    arguments += ["--tools", "memcheck,racecheck", "--", "-k", "tree_accept"]
    monkeypatch.setattr(sys, "argv", ["sanitize_gpu.py", *arguments])
    assert tool.main() == (1 if deaf else 0)
    assert ("missed its canary" in capsys.readouterr().out) == bool(deaf)
    text = (tmp_path / "r" / "s.md").read_text()
    assert text.count("| ok |") == (3 if deaf else 4)
    assert "0 findings in 4 of 4 cases, exit code 0" in text
    assert (tmp_path / "r" / "s.json").exists()


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
def test_the_canary_builds(tmp_path: Path) -> None:
    library = tmp_path / "libddtree_cuda.so"
    library.write_bytes(b"")
    assert tool.build_canary(library, "sm_90").is_file()
