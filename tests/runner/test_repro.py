"""``harness repro``: one case as a program that is built and run without this package."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bad_targets import HIT
from command_line import exit_code

from harness.case import materialize
from harness.contract import KERNELS
from harness.shapes import is_planted
from harness.store import open_set

CASE = f"tree_build/made/budget{HIT}"


def repro(folder: Path, case_id: str, out: Path, *more: object) -> int:
    return exit_code("repro", folder, "--case", case_id, "--out", out, *more)


def built(out: Path) -> None:
    done = subprocess.run(["make", "-s", "CXX=g++ -Werror"], cwd=out, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def ran(out: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["./repro", *map(str, arguments)]
    return subprocess.run(command, cwd=out, capture_output=True, text=True, timeout=60)


def case_ids(folder: Path) -> list[str]:
    """One case of every kernel, of greedy_step one of each mode."""
    found: dict[tuple[str, bool], str] = {}
    with open_set(folder) as fixtures:
        for case in fixtures.cases():
            found.setdefault((case.kernel, is_planted(case.inputs)), case.case_id)
    return list(found.values())


def test_every_kernel(small_set: Path, tmp_path: Path, flaky) -> None:
    ids = case_ids(small_set)
    assert {case_id.split("/")[0] for case_id in ids} == set(KERNELS)
    for number, case_id in enumerate(ids):
        out = tmp_path / str(number)
        assert repro(small_set, case_id, out) == 0
        built(out)
        done = ran(out)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "PASS"), done.stdout + done.stderr
        assert done.stdout.startswith(f"{case_id} on emulated on the CPU")
        assert ran(out, flaky("-DNONE")).returncode == 0
        assert "flaky library" in ran(out, flaky("-DNONE")).stdout


def steps(case) -> int:
    return len(materialize(case.inputs["root_token"]))


def test_planted_and_synthesized_steps(small_set: Path, tmp_path: Path) -> None:
    from harness.cases import FAMILIES
    from harness.cases.base import make_case
    from harness.store import write_set
    from harness.store.manifest import SetInfo

    families = [f for f in FAMILIES if f.kernel == "greedy_step"]
    plans = [(f, p) for f in families for p in f.plan("smoke") if dict(p).get("U", 2) != 1]
    made = [make_case(family, params, 0) for family, params in plans]
    cases = [next(c for c in made if steps(c) > 1 and is_planted(c.inputs) == mode) for mode in (False, True)]
    write_set(cases, tmp_path / "set", SetInfo.here("smoke", 0))
    for number, case in enumerate(cases):
        out = tmp_path / str(number)
        assert repro(tmp_path / "set", case.case_id, out) == 0
        built(out)
        done = ran(out)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "step 1" in done.stdout


def test_a_wrong_answer_is_found(small_set: Path, tmp_path: Path, flaky) -> None:
    assert repro(small_set, CASE, tmp_path / "r", "--target", flaky("-DWRONG=1")) == 0
    built(tmp_path / "r")
    done = ran(tmp_path / "r")
    assert done.returncode == 1
    assert "WRONG node_parent[0][1] is 7, expected 0; 1 of 18 wrong" in done.stdout
    assert done.stdout.splitlines()[-1] == "FAIL"
    with open_set(small_set) as fixtures:
        attention = next(fixtures.cases("verify_attn"))
    assert repro(small_set, attention.case_id, tmp_path / "a") == 0
    expected = tmp_path / "a" / "arrays" / "lse.expected.bin"
    spoiled = np.fromfile(expected, np.float32)
    spoiled[np.isfinite(spoiled).argmax()] += 1
    spoiled.tofile(expected)
    built(tmp_path / "a")
    done = ran(tmp_path / "a")
    assert done.returncode == 1
    assert "WRONG lse[" in done.stdout and "max abs diff 1," in done.stdout


def test_a_crash_is_a_crash(small_set: Path, tmp_path: Path, flaky) -> None:
    assert repro(small_set, CASE, tmp_path / "r", "--target", flaky("-DDIES")) == 0
    built(tmp_path / "r")
    assert ran(tmp_path / "r").returncode == -6


def test_thread_orders_and_usage(small_set: Path, tmp_path: Path, flaky) -> None:
    out = tmp_path / "r"
    assert repro(small_set, CASE, out) == 0
    built(out)
    library = next(
        line.split("=", 1)[1].strip()
        for line in (out / "Makefile").read_text().splitlines()
        if line[:7] == "LIBRARY"
    )
    for order in (("forward",), ("reverse",), ("random", 7)):
        assert ran(out, library, *order).returncode == 0
    assert ran(out, library, "sideways").returncode == 2
    assert "has no thread order" in ran(out, flaky("-DNONE"), "forward").stderr
    assert "repro: " in ran(out, "./absent.so").stderr
    (out / "arrays" / "root_token.bin").write_bytes(b"")
    assert "root_token.bin is too short" in ran(out).stderr


def test_the_raw_arrays_are_those_of_the_case(small_set: Path, tmp_path: Path) -> None:
    for number, case_id in enumerate(case_ids(small_set)):
        out = tmp_path / str(number)
        assert repro(small_set, case_id, out) == 0
        index = json.loads((out / "arrays" / "index.json").read_text())
        with open_set(small_set) as fixtures:
            case = fixtures.case(case_id)
        read = {}
        for entry in index["arrays"]:
            raw = (out / "arrays" / entry["file"]).read_bytes()
            read[entry["file"].removesuffix(".bin")] = np.frombuffer(raw, entry["dtype"]).reshape(
                entry["shape"]
            )
        for name, value in case.inputs.items():
            assert read[name].tobytes() == materialize(value).tobytes()
        assert index["scalars"] == dict(case.scalars)
        assert {"out.allowed", "lse.allowed"} <= read.keys() or case.policy == "exact"


def test_it_is_written_again_but_nothing_else_is(small_set: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "r"
    assert repro(small_set, CASE, out) == 0
    built(out)
    assert repro(small_set, CASE, out) == 0
    (out / "notes.txt").write_text("mine")
    assert repro(small_set, CASE, out) == 2
    assert (out / "notes.txt").exists()
    for target in ("reference", "module:Class", "./absent.so"):
        assert repro(small_set, CASE, tmp_path / "other", "--target", target) == 2
    assert repro(small_set, "tree_build/none", tmp_path / "other") == 2
    assert not (tmp_path / "other").exists()
    assert "no shared library" in capsys.readouterr().err


def test_no_paths_of_this_machine(small_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert repro(small_set, CASE, Path("r")) == 0
    for path in (tmp_path / "r").iterdir():
        if path.is_file():
            assert str(tmp_path) not in path.read_text(), path


@pytest.mark.slow
def test_with_an_address_sanitizer(small_set: Path, tmp_path: Path) -> None:
    assert repro(small_set, CASE, tmp_path / "r") == 0
    done = subprocess.run(["make", "-s", "asan"], cwd=tmp_path / "r", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    variables = {"ASAN_OPTIONS": "detect_leaks=0"}
    assert subprocess.run(["./repro-asan"], cwd=tmp_path / "r", env=variables).returncode == 0


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
def test_nvcc_compiles_the_same_source(small_set: Path, tmp_path: Path) -> None:
    for number, case_id in enumerate(case_ids(small_set)[-1:]):
        out = tmp_path / str(number)
        assert repro(small_set, case_id, out) == 0
        done = subprocess.run(["make", "-s", "gpu"], cwd=out, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (out / "repro-gpu").exists()
