"""Targets by name: ``reference``, ``cpu``, ``cuda``, a path to a shared library, or ``module:Class``.

`open_target` loads code that may do anything; a verify calls it in worker processes only.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageProblem
from harness.targets import sanitizer
from harness.targets.base import Identity, Options, Target, parse_order
from harness.targets.locate import candidates, own_library

__all__ = ["Identity", "Options", "Target", "check_name", "open_target", "worker_environment"]

_CHOICES = "reference, cpu, cuda, a path to a shared library (with a / or .so), or module:Class"


def is_library_path(name: str) -> bool:
    """True for a name that means a shared library on disk."""
    return "/" in name or name.endswith(".so") or ".so." in name


def check_name(name: str, options: Options) -> None:
    """Raise UsageProblem where the name or an option cannot be right, without loading anything."""
    if options.order is not None:
        parse_order(options.order)
    if name in ("reference", "cpu", "cuda"):
        return
    if is_library_path(name):
        if Path(name).is_dir():
            raise UsageProblem(f"target {name}: is a folder; name the library in it")
        if not Path(name).is_file():
            raise UsageProblem(f"target {name}: no such file; give {_CHOICES}")
        return
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise UsageProblem(f"unknown target {name!r}; give {_CHOICES}")


def worker_environment(name: str) -> dict[str, str]:
    """Variables that a process needs before it loads this target."""
    if name in ("cpu", "cuda"):
        paths = [path for path in candidates(name) if path.is_file()]
    else:
        paths = [Path(name)] if is_library_path(name) else []
    return sanitizer.environment(paths[0]) if paths else {}


def open_target(name: str, options: Options | None = None) -> Target:
    """Load a target into this process.

    UsageProblem: no such target, or an option it does not know. EnvironmentProblem: the machine or the
    library cannot serve. A target never falls back to another.
    """
    options = options or Options()
    check_name(name, options)
    if name not in ("cpu", "cuda") and not is_library_path(name):
        from harness.targets.python import open_python

        return open_python(name, options)
    from harness.targets.library_target import open_library

    path = own_library(name) if name in ("cpu", "cuda") else Path(name)
    return open_library(name, path, options)
