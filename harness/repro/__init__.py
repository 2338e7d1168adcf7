"""One case as a small C++/CUDA program: raw arrays, generated declarations, a fixed main, a Makefile."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

import harness
from harness.case import AnyArray, Case, Sampled, known, materialize
from harness.contract import KERNELS, Array
from harness.errors import EnvironmentProblem, UsageProblem
from harness.judge.compare import attention_allowance
from harness.judge.rows import whole
from harness.repro.declarations import declarations
from harness.shapes import inputs_of, outputs_of

_TEMPLATES = Path(__file__).parent / "templates"
_OURS = {"main.cpp", "runtime.h", "case.h", "ddtree.h", "Makefile", "README.md", "arrays"}
_BUILT = {"repro", "repro-asan", "repro-gpu"}


def write_repro(case: Case, folder: Path, library: Path, verify: str) -> tuple[Path, ...]:
    """Write the program to ``folder``; the files.

    ``verify`` is the command that runs the case in the harness. UsageProblem where the folder holds something
    else.
    """
    if folder.exists() and (not folder.is_dir() or {p.name for p in folder.iterdir()} - _OURS - _BUILT):
        raise UsageProblem(f"{folder} holds something else; give a new folder as --out")
    arrays = folder / "arrays"
    arrays.mkdir(parents=True, exist_ok=True)
    for old in arrays.iterdir():
        old.unlink()
    index = []
    for name, role, values in _files(case):
        plain = np.ascontiguousarray(values)
        (arrays / f"{name}.bin").write_bytes(plain.tobytes())
        index.append(
            {"file": f"{name}.bin", "role": role, "dtype": plain.dtype.str, "shape": list(plain.shape)}
        )
    words = {
        "@CASE@": case.case_id,
        "@SYMBOL@": KERNELS[case.kernel].symbol,
        "@LIBRARY@": os.path.relpath(library, folder),
        "@VERIFY@": verify,
    }
    about = {"case": case.case_id, "scalars": dict(case.scalars), "arrays": index}
    texts = {
        "arrays/index.json": json.dumps(about, indent=1),
        "case.h": declarations(case),
        "ddtree.h": _header().read_text(encoding="utf-8"),
        **{name: _filled(name, words) for name in ("main.cpp", "runtime.h", "Makefile", "README.md")},
    }
    for name, text in texts.items():
        (folder / name).write_text(text.rstrip() + "\n", encoding="utf-8")
    return tuple(folder / name for name in texts)


def _files(case: Case) -> list[tuple[str, str, AnyArray]]:
    """File name, role and values of every array that the program reads."""
    kernel = KERNELS[case.kernel]
    files = [(a.name, "input", materialize(case.inputs[a.name])) for a in inputs_of(kernel, case.inputs)]
    attention = attention_allowance(case.expected) if case.policy == "attention" else {}
    for array in outputs_of(kernel, case.inputs):
        files.append((f"{array.name}.expected", "expected", _expected(array, case, attention)))
        if array.name in attention:
            files.append((f"{array.name}.allowed", "allowed difference", _allowed(array, case, attention)))
    return files


def _expected(array: Array, case: Case, attention: Mapping[str, AnyArray]) -> AnyArray:
    if array.name in attention:
        return whole(case.expected, array.name).astype(np.float32)
    return known(case.expected[array.name])


def _allowed(array: Array, case: Case, attention: Mapping[str, AnyArray]) -> AnyArray:
    """Of a row that is not stored, any finite value is allowed."""
    value, allowed = case.expected[array.name], attention[array.name]
    if not isinstance(value, Sampled):
        return allowed
    free = np.where(known(case.expected["visible"]) == 0, 0.0, np.inf)
    fill = np.broadcast_to(free.reshape(*free.shape, *[1] * (len(value.shape) - 2)), value.shape)
    return replace(value, values=allowed).filled(fill)


def _header() -> Path:
    packages = [Path(entry) for entry in harness.__path__]
    places = [entry.parent / "cuda" / "include" / "ddtree.h" for entry in packages]
    for place in [*places, *(entry / "include" / "ddtree.h" for entry in packages)]:
        if place.is_file():
            return place
    raise EnvironmentProblem("ddtree.h is not beside this package; run from a source tree of the project")


def _filled(name: str, words: Mapping[str, str]) -> str:
    text = (_TEMPLATES / name).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(word, value)
    return text
