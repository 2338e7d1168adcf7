"""The examples of docs/targets.md work as they stand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import verify
from harness.results import Outcome

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


def test_the_smallest_library(small_set: Path, tmp_path: Path) -> None:
    [code] = blocks("c")
    source = tmp_path / "my.c"
    stub = "static int32_t my_tree_accept(const ddtree_tree_accept_args* a, void* s) { return DDTREE_OK; }\n"
    source.write_text(code.replace('#include "ddtree.h"\n', f'#include "ddtree.h"\n{stub}'))
    library = tmp_path / "my.so"
    include = str(ROOT / "cuda" / "include")
    subprocess.run(["cc", "-shared", "-fPIC", "-I", include, str(source), "-o", str(library)], check=True)
    results = verify(small_set, str(library), kernels=("tree_accept",), jobs=1)
    assert results.target.description == "my kernels"
    assert results.target.capabilities == ("TREE_ACCEPT",)
    outcomes = {c.outcome for c in results.cases}
    assert outcomes <= {Outcome.UNWRITTEN, Outcome.UNSUPPORTED}
    assert Outcome.UNWRITTEN in outcomes


def test_the_python_target(small_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(blocks("python")[0])
    monkeypatch.chdir(tmp_path)
    results = verify(small_set, "mine:Mine", kernels=("tree_build",), jobs=1)
    assert (results.exit_reason, results.target.description) == ("", "my tree builder")


def test_the_debugging_snippet(small_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks("python")[-1].replace("fixtures/smoke", str(small_set))
    code = code.replace("tree_accept/...", "tree_build/made/budget5").replace("./my.so", "cpu")
    exec(compile(code, "docs/targets.md", "exec"), {})
    assert "status='done'" in capsys.readouterr().out
