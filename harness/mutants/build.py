"""Builds the library of wrong kernels with CMake, where it is not built."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import harness
from harness.errors import EnvironmentProblem

TARGETS = ("cpu", "cuda")
_FOLDERS = {"cpu": "mutants", "cuda": "mutants-cuda"}


def source_folder() -> Path:
    """``cuda/mutants`` of this source tree."""
    for entry in harness.__path__:
        folder = Path(entry).parent / "cuda" / "mutants"
        if (folder / "CMakeLists.txt").is_file():
            return folder
    raise EnvironmentProblem("no cuda/mutants beside the package: mutants are built from a source tree")


def library_path(target: str) -> Path:
    """Where a build leaves the library of ``target``. EnvironmentProblem where there is no source tree."""
    build = source_folder().parents[1] / "build" / _FOLDERS[target]
    return build / f"libddtree_mutants_{target}.so"


def build_library(target: str, folder: Path) -> Path:
    """The library of mutants for ``target``, up to date, as a copy in ``folder``.

    A copy, so that a run which opens it again and again meets no later build. EnvironmentProblem where it
    cannot be built.
    """
    with _alone(library_path(target).parent):
        return Path(shutil.copy2(_build(target), folder))


def _build(target: str) -> Path:
    source, library = str(source_folder()), library_path(target)
    build = library.parent
    tools = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(tools)}
    cmake = shutil.which("cmake", path=environment["PATH"])
    if cmake is None:
        raise EnvironmentProblem("no cmake found; install it, or `pip install cmake ninja`")
    ninja = shutil.which("ninja", path=environment["PATH"]) is not None
    again = (build / "CMakeCache.txt").is_file()  # with the generator of the first time
    generator = ["-G", "Ninja"] if ninja and not again else []
    for command in (
        [cmake, "-S", source, "-B", str(build), f"-DDDTREE_CUDA={target == 'cuda'}", *generator],
        [cmake, "--build", str(build), "-j", str(os.cpu_count() or 1)],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = what_failed(done.stdout + done.stderr)
            raise EnvironmentProblem(f"the mutants cannot be built: {why}; run `{shlex.join(command)}`")
    if not library.is_file():
        raise EnvironmentProblem(f"the build left no {library.name} in {build}")
    return library


def what_failed(output: str) -> str:
    """The first errors of a build's output in one line, or its end where none is called so.

    A line that ends in a colon has its reason on the next one.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if re.search(r"\berror\b|undefined reference", line, re.IGNORECASE):
            errors.append(f"{line} {after}" if line.endswith(":") else line)
    return " | ".join(errors[:3] or lines[-4:])[:600]


@contextmanager
def _alone(build: Path) -> Iterator[None]:
    """One build at a time in this folder: those that start together must not link one library."""
    build.mkdir(parents=True, exist_ok=True)
    with (build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
