"""``harness verify``: exit codes, selections, reports, and commands that reproduce a failure."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from command_line import exit_code
from made import BUDGETS, HIT

import harness
from harness.results import Outcome, load_results

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "harness" / "results.schema.json").read_text())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, where `bad_targets` can be imported."""
    shutil.copy(Path(__file__).parent / "bad_targets.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verify(*arguments: object) -> int:
    return exit_code("verify", "--jobs", 1, *arguments)


def test_pass(here: Path, small_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(small_set, "--target", "cpu") == 0
    out, err = capsys.readouterr()
    assert err == "verifying cpu ...\n"
    lines = out.splitlines()
    assert lines[1].split() == ["kernel", "PASS", "worst", "share", "emulated"]
    assert lines[2].split()[:3] == ["tree_build", str(len(BUDGETS)), "exact"]
    assert re.fullmatch(
        r"PASS \([\d.]+ s, [\d,]+ cases a second from the first result to the last\)", lines[-1]
    )
    folder = here / "reports" / "cpu-smoke"
    names = {path.name for path in folder.iterdir()}
    assert {"results.json", "junit.xml", "summary.md", "index.html"} <= names


def test_results_file(here: Path, small_set: Path) -> None:
    assert verify(small_set, "--target", "bad_targets:Constants", "-k", "tree_build", "--report", "out") == 1
    text = (here / "out" / "results.json").read_text()
    jsonschema.validate(json.loads(text), SCHEMA)
    results = load_results(here / "out" / "results.json")
    assert (results.exit_code, results.exit_reason) == (1, "1 WRONG_VALUES")
    assert results.planned == len(results.cases) == len(BUDGETS)
    assert results.cases_per_second is not None
    assert results.cases_per_second > (len(BUDGETS) - 1) / results.run.seconds  # the start is not in it
    assert results.run.command.startswith("harness verify ")
    assert results.run.options["kernels"] == ["tree_build"]
    assert results.environment.facts.keys() >= {"python", "numpy", "cpu", "platform"}
    [bad] = [c for c in results.cases if c.outcome is Outcome.WRONG_VALUES]
    assert bad.mismatch is not None
    assert (bad.mismatch.array, bad.mismatch.index, bad.mismatch.got) == ("node_token", (0, 0), "7")
    assert bad.tree is not None
    assert len(bad.tree.parent) == HIT + 1
    assert bad.dims == {"B": 2, "K": 4, "L": 3, "N": HIT + 1, "W": 1}
    assert socket.gethostname() not in text
    user = getpass.getuser()
    assert user == "root" or user not in text.replace(str(small_set), "").replace(f"pytest-of-{user}", "")


def test_the_reproducing_command_works(here: Path, small_set: Path, capsys) -> None:
    assert verify(small_set, "--target", "bad_targets:Constants", "-k", "tree_build", "--repeat", 3) == 1
    out = capsys.readouterr().out
    [command] = [line.strip() for line in out.splitlines() if "--case" in line]
    words = shlex.split(command)
    assert words[:2] == ["harness", "verify"]
    assert words[-4:-2] == ["--repeat", "3"]
    again = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, env=from_source())
    assert again.returncode == 1, again.stderr
    assert "FAIL: 1 WRONG_VALUES" in again.stdout
    assert "python3 -m harness verify" in again.stdout


def test_from_a_source_tree_without_templates(here: Path, small_set: Path) -> None:
    """A GPU machine has no template library: `results.json` alone is written."""
    (here / "jinja2.py").write_text("raise ImportError('not here')")
    command = [
        sys.executable,
        "-m",
        "harness",
        "verify",
        str(small_set),
        "--target",
        "cpu",
        "-k",
        "kv_commit",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=from_source())
    assert done.returncode == 0, done.stderr
    assert [p.name for p in (here / "reports" / "cpu-smoke").iterdir()] == ["results.json"]


def from_source() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "nonsense"], "unknown target 'nonsense'"),
        (["--target", "./absent.so"], "no such file"),
        (["--target", "cpu", "-k", "no_kernel"], "no_kernel"),
        (["--target", "cpu", "--flag", "no_flag"], "--flag no_flag selects no case"),
        (["--target", "cpu", "--case", "tree_build/nothing*"], "selects no case"),
        (["--target", "cpu", "-k", "kv_commit", "--case", "tree_build/*"], "selects no case"),
        (["--target", "cpu", "--order", "sideways"], "--order is 'sideways'"),
        (["--target", "reference", "--order", "reverse"], "has no thread order"),
        (["--target", "cpu", "--repeat", "1"], "1"),
        (["--target", "cpu", "--timeout", "0"], "0"),
        ([], "--target"),
    ],
)
def test_usage(here: Path, small_set: Path, capsys, arguments: list[str], words: str) -> None:
    assert verify(small_set, *arguments) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert out == ""
    assert "Traceback" not in err


def test_selections(here: Path, small_set: Path) -> None:
    assert verify(small_set, "--target", "cpu", "--case", f"*budget{HIT}", "--case", "kv_commit/*") == 0
    cases = load_results(here / "reports" / "cpu-smoke" / "results.json").cases
    assert {c.kernel for c in cases} == {"tree_build", "kv_commit"}
    assert [c.case_id for c in cases if c.kernel == "tree_build"] == [f"tree_build/made/budget{HIT}"]


def test_a_required_kernel(here: Path, small_set: Path, capsys) -> None:
    assert verify(small_set, "--target", "cpu", "-k", "kv_commit", "--require", "tree_build") == 1
    assert "no case of tree_build passed" in capsys.readouterr().out


def test_unsupported_is_named(here: Path, small_set: Path, faulty, capsys) -> None:
    assert verify(small_set, "--target", faulty("UNDECLARED"), "--order", "forward") == 2
    capsys.readouterr()
    assert verify(small_set, "--target", faulty("UNDECLARED")) == 1
    out = capsys.readouterr().out
    assert "UNSUPPORTED kv_commit (4): the target does not declare KV_COMMIT" in out
    assert verify(small_set, "--target", faulty("UNDECLARED"), "-k", "tree_build") == 0


def test_a_damaged_set(here: Path, small_set: Path, capsys) -> None:
    copy = here / "damaged"
    shutil.copytree(small_set, copy)
    raw = bytearray((copy / "kv_commit.h5").read_bytes())
    raw[len(raw) // 2] ^= 1
    (copy / "kv_commit.h5").write_bytes(raw)
    assert verify(copy, "--target", "reference") == 3
    assert verify(here / "absent", "--target", "reference") == 3
    err = capsys.readouterr().err
    assert err.count("\nharness: ") == 2


def test_no_gpu(here: Path, small_set: Path, faulty, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (here / "libcuda.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(here))
    assert verify(small_set, "--target", faulty("NONE", "-DDEVICE")) == 4
    assert "use --target cpu" in capsys.readouterr().err


def test_a_harness_error(here: Path, small_set: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("harness.runner.verification.judge", broken)
    assert verify(small_set, "--target", "reference", "-k", "kv_commit") == 6
    assert "ZeroDivisionError: by zero" in capsys.readouterr().out


def test_run_calls_one_kernel_here(faulty) -> None:
    from made import tree_case

    case = tree_case(HIT)
    for target in ("cpu", "reference"):
        outputs = harness.run("tree_build", case.inputs, target, budget=HIT)
        assert outputs.keys() == case.expected.keys()
        for name, value in outputs.items():
            assert value.tobytes() == case.expected[name].tobytes()
    with pytest.raises(harness.errors.UsageProblem, match="scalars: budget missing"):
        harness.run("tree_build", case.inputs)
    for budget, kind in (([HIT], "list"), (np.array(HIT), "ndarray"), (None, "NoneType"), ("8", "str")):
        with pytest.raises(
            harness.errors.UsageProblem, match=f"^tree_build: budget is {kind}, want a number$"
        ):
            harness.run("tree_build", case.inputs, budget=budget)
    with pytest.raises(harness.errors.UsageProblem, match="unknown kernel"):
        harness.run("no_kernel", case.inputs)
    for fault in ("PAST_END", "EDIT_INPUT", "INVALID"):
        with pytest.raises(harness.errors.HarnessError):
            harness.run("tree_build", case.inputs, str(faulty(fault)), budget=HIT)


def test_help_stays_light() -> None:
    """Neither the verb nor its help loads the template library or a target."""
    code = "import sys, harness.cli.verify; print(sorted({'jinja2', 'rich', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=from_source())
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("report", ["taken/below", "/proc/nowhere"])
def test_a_report_folder_that_cannot_be_is_said_before_the_run(
    here: Path, small_set: Path, capsys: pytest.CaptureFixture[str], report: str
) -> None:
    (here / "taken").write_text("a file")
    code = verify(small_set, "--target", "cpu", "--report", report)
    out, err = capsys.readouterr()
    assert (code, out) == (2 if report.startswith("taken") else 4, "")
    assert err.count("\n") == 1 and report in err


def test_a_report_that_fails_to_be_written_does_not_take_the_verdict_along(
    here: Path, small_set: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.report.write_reports", full)
    assert verify(small_set, "--target", "cpu") == 4
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("PASS (") and "No space left" in err


def test_unsupported_cases_are_counted_in_the_last_line(
    here: Path, small_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(small_set, "--target", "bad_targets:Refuses", "-k", "tree_build") == 0
    assert "cases not served" in capsys.readouterr().out.splitlines()[-1]
