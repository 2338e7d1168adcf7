"""One implementation of our attention can be forced on the cases of a set (cuda/tools/forced_attention.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.runner.verification import VerifyOptions, verify
from harness.targets.locate import own_library

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def forced(tmp_path_factory: pytest.TempPathFactory) -> str:
    library, path = own_library("cpu"), tmp_path_factory.mktemp("forced") / "forced_attention.so"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Icuda/include", "-Icuda/src"]
    command += ["cuda/tools/forced_attention.c", f"-L{library.parent}", "-lddtree_cpu"]
    command += [f"-Wl,-rpath,{library.parent}", "-o", str(path)]
    subprocess.run(command, cwd=ROOT, check=True)
    return str(path)


@pytest.mark.parametrize(("config", "outcome"), [("1", "PASS"), ("4", "UNSUPPORTED")])
def test_the_configuration_is_the_one_asked_for(
    forced: str, config: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDTREE_ATTN_CONFIG", config)
    options = VerifyOptions(kernels=("verify_attn",), flags=("mla",), jobs=1)
    totals = verify(ROOT / "fixtures" / "smoke", forced, options).totals
    assert totals[outcome] == sum(totals.values()) > 0
