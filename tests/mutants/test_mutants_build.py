"""One build of the mutants at a time, and each run on its own."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EnvironmentProblem
from harness.mutants import build as build_module
from harness.mutants import campaign
from harness.mutants.build import build_library, library_path
from harness.mutants.campaign import Campaign, run_campaign


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A source tree whose build is instant; every build leaves another library. Where it lies."""
    source = tmp_path / "cuda" / "mutants"
    source.mkdir(parents=True)
    running, built = threading.Semaphore(1), count()

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert running.acquire(blocking=False), "two builds in one folder"
        time.sleep(0.05)
        library_path("cpu").write_text(str(next(built)))
        running.release()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(build_module, "source_folder", lambda: source)
    monkeypatch.setattr(build_module.shutil, "which", lambda name, path=None: name)
    monkeypatch.setattr(build_module.subprocess, "run", run)
    return library_path("cpu")


def test_one_build_at_a_time_and_each_run_keeps_its_own(instant: Path, tmp_path: Path) -> None:
    folders = [tmp_path / str(i) for i in range(4)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(4) as pool:
        libraries = list(pool.map(lambda folder: build_library("cpu", folder), folders))
    assert [library.parent for library in libraries] == folders
    assert len({library.read_text() for library in libraries}) == 4


def test_a_build_during_a_run_changes_nothing(
    library: Path, smoke: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another run builds anew while this one has proved the right kernels and starts its workers."""
    linked = tmp_path / library.name
    shutil.copy2(library, linked)
    prove = campaign._prove_right

    def prove_and_relink(*arguments: Any) -> dict[str, str]:
        facts = prove(*arguments)
        linked.write_bytes(linked.read_bytes()[:4096])  # a linker that is half done
        return facts

    monkeypatch.setattr(build_module, "_build", lambda target: linked)
    monkeypatch.setattr(campaign, "_prove_right", prove_and_relink)
    made = run_campaign(Campaign(suite_dir=smoke, only=("accept_bonus_by_length",)), "")
    assert made.totals["killed"] == 1 and not made.harness_faults


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (
            ["growth.h(88): error: no such thing", "[5/9] Building step.o"],
            "growth.h(88): error: no such thing",
        ),
        (["a.o: undefined reference to `b'", "ld returned 1 exit status"], "a.o: undefined reference to `b'"),
        (
            ["CMake Error at x.cmake:47 (message):", "", "  No compiler."],
            "CMake Error at x.cmake:47 (message): No c",
        ),
        (["no rule to make y"], "[7/9] Building 7.o | [8/9] Building 8.o | ninja: build stopped"),
    ],
)
def test_a_failed_build_is_told_by_its_errors(
    instant: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: list[str], why: str
) -> None:
    """Other files go on compiling behind the error, so that it is not among the last lines."""
    built = ["[1/9] Building kernel_errors.o", *log, *(f"[{i}/9] Building {i}.o" for i in range(6, 9))]
    output = "\n".join([*built, "ninja: build stopped: subcommand failed."])

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, int("--build" in command), output, "")

    monkeypatch.setattr(build_module.subprocess, "run", run)
    with pytest.raises(EnvironmentProblem) as caught:
        build_library("cpu", tmp_path)
    assert why in str(caught.value)
    assert f"; run `cmake --build {library_path('cpu').parent}" in str(caught.value)


@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_the_mutants_build_for_a_gpu(tmp_path: Path) -> None:
    exported = subprocess.run(
        ["nm", "-D", build_library("cuda", tmp_path)], capture_output=True, text=True, check=True
    )
    assert " T ddtree_greedy_step" in exported.stdout
