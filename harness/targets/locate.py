"""Where this project's own libraries lie: the build folder of a source tree, or beside the package."""

from __future__ import annotations

from pathlib import Path

import harness
from harness.errors import EnvironmentProblem

_REMEDY = {
    "cpu": "build it with `cmake -S cuda -B build && cmake --build build`",
    "cuda": "build it with nvcc: `cmake -S cuda -B build -DDDTREE_CUDA=ON && cmake --build build`",
}


def candidates(name: str) -> list[Path]:
    """Paths that may hold ``libddtree_<name>.so``, the freshest kind first.

    An editable install splits the package over two folders, so every entry of its path is looked at.
    """
    file = f"libddtree_{name}.so"
    packages = [Path(entry) for entry in harness.__path__]
    built = [entry.parent / "build" / file for entry in packages if (entry.parent / "cuda").is_dir()]
    return built + [entry / "lib" / file for entry in packages]


def own_library(name: str) -> Path:
    """The library of the targets ``cpu`` and ``cuda``; EnvironmentProblem names the remedy."""
    for path in candidates(name):
        if path.is_file():
            return path
    raise EnvironmentProblem(f"target {name}: no libddtree_{name}.so found; {_REMEDY[name]}")
