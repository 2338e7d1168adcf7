"""gen-refs: the same set from any number of jobs, whole or not at all, whatever ends it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import exit_code
from small_families import SMALL

from harness.cli.progress import progress_bar
from harness.errors import HarnessError, UsageProblem
from harness.generate import generate
from harness.store import open_set
from harness.store.manifest import load_manifest

ROOT = Path(__file__).resolve().parents[2]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_number_of_jobs_does_not_matter(small: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    generate(
        "smoke",
        tmp_path / "smoke",
        jobs=3,
        catalogue=SMALL,
        progress=lambda done, all_: seen.append((done, all_)),
    )
    assert contents(tmp_path / "smoke") == contents(small)
    assert seen[-1] == (10, 10)


def test_what_is_written(small: Path) -> None:
    with open_set(small) as fixtures:
        assert fixtures.kernels == ("verify_attn", "tree_accept")
        ids = [summary.case_id for summary in fixtures.summaries("tree_accept")]
        assert [case_id.rsplit("-", 1)[0] for case_id in ids] == [
            f"tree_accept/chains/N{n}" for n in range(2, 7)
        ]
        assert fixtures.case(ids[0]).flags == ("chain",)
        assert fixtures.manifest.info.root_seed == 0


def test_another_seed_gives_other_cases(small: Path, tmp_path: Path) -> None:
    manifest = generate("smoke", tmp_path / "smoke", seed=1, jobs=1, catalogue=SMALL)
    assert manifest.set_sha256 != load_manifest(small).set_sha256


def test_a_suite_holds_the_smaller_one(small: Path, tmp_path: Path) -> None:
    generate("standard", tmp_path / "standard", kernels=["tree_accept"], jobs=1, catalogue=SMALL)
    with open_set(small) as smoke, open_set(tmp_path / "standard") as standard:
        assert standard.kernels == ("tree_accept",)
        payloads = {summary.case_id: summary.payload_sha256 for summary in standard.summaries()}
        for summary in smoke.summaries("tree_accept"):
            assert payloads[summary.case_id] == summary.payload_sha256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"suite": "tiny"}, "unknown suite 'tiny'; there are smoke, standard, full"),
        ({"kernels": ["attn"]}, "unknown kernel 'attn'"),
        ({"kernels": ["kv_commit"]}, "has no cases of kv_commit"),
        ({"seed": -1}, "seed -1"),
        ({"seed": 2**63}, "seed 9223372036854775808"),
    ],
)
def test_nonsense_is_a_usage_problem(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        generate(**{"suite": "smoke", "out": tmp_path / "x", "catalogue": SMALL, **arguments})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_failing_family_names_itself_and_leaves_the_old_set(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "smoke")
    with pytest.raises(HarnessError, match=r"^kv_commit/raises N5: ZeroDivisionError: no such tree$"):
        generate("smoke", tmp_path / "smoke", jobs=1, catalogue="broken_families")
    assert contents(tmp_path / "smoke") == contents(small)
    assert [path.name for path in tmp_path.iterdir()] == ["smoke"]


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    for name, text in (("notes.txt", "mine"), ("manifest.json", '{"name": "a web page"}'), (".hidden", "")):
        folder = tmp_path / name.strip(".")
        folder.mkdir()
        (folder / name).write_text(text)
        assert exit_code("gen-refs", "--suite", "smoke", "--out", folder) == 2
        assert contents(folder) == {name: text.encode()}
        assert exit_code("gen-refs", "--suite", "smoke", "--out", folder / name) == 2
    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_set_is_replaced(small: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small, tmp_path / "smoke"))
    (folder / "manifest.json").write_text("{")
    (folder / "tree_accept.h5").write_bytes(b"")
    generate("smoke", folder, jobs=1, catalogue=SMALL)
    assert contents(folder) == contents(small)


KILLED = """
import sys
from pathlib import Path
from harness.generate import generate
def progress(done, planned):
    print(done, flush=True)
    if done > 8:
        import time; time.sleep(60)
if __name__ == "__main__":
    generate("standard", Path(sys.argv[1]), jobs=2, catalogue="small_families", progress=progress)
"""


def test_a_killed_generation_leaves_nothing_behind(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "sets" / "standard")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["8\n", "16\n"]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = [int(pid) for pid in children.read_text().split()] if children.exists() else []
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "sets" / "standard").exists()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() and not _ended(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker outlives its parent"
        time.sleep(0.1)
    generate("smoke", tmp_path / "sets" / "standard", jobs=1, catalogue=SMALL)
    assert [path.name for path in (tmp_path / "sets").iterdir()] == ["standard"]


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_interrupt_while_workers_start_ends_in_one_line(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the terminal; the workers, still importing, must not answer it."""
    command = [sys.executable, "-m", "harness", "gen-refs", "--suite", "smoke", "-j", "2"]
    for delay in (0.0, 0.1, 0.3):
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "smoke")], cwd=ROOT, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore it
        )  # fmt: skip
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while len(children.read_text().split()) < 3:  # the workers, and the tracker of multiprocessing
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.002)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        with process.stderr:
            lines = process.stderr.read().split("\n")
        assert [line for line in lines if line] == ["generating smoke ...", "harness: interrupted"]
        assert process.wait() == 130
    assert list(tmp_path.iterdir()) == []


def test_long_work_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 9.0, 11.0, 12.0, 22.0, 40.0])
    monkeypatch.setattr("harness.cli.progress.time.monotonic", lambda: next(clock))
    with progress_bar("working") as progress:
        for done in (1, 2, 3, 4, 5):
            progress(done, 5)
    assert capsys.readouterr().err.splitlines() == [
        "working ...", "working: 2 of 5, 11 s", "working: 4 of 5, 22 s"
    ]  # fmt: skip


def test_the_command_and_its_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "smoke"
    arguments = ("gen-refs", "--suite", "smoke", "--kernel", "kv_commit", "--jobs", "1", "--out", out)
    assert exit_code(*arguments) == 0
    printed = capsys.readouterr()
    assert "kv_commit" in printed.out and f"{out}: suite smoke, set " in printed.out
    assert printed.err == "generating smoke ...\n"
    assert exit_code(*arguments, "--check") == 0
    assert "as the sources generate them" in capsys.readouterr().out
    (out / "kv_commit.h5").write_bytes(b"")
    assert exit_code(*arguments, "--check") == 3
    assert exit_code("gen-refs", "--check", "--out", tmp_path / "absent") == 3


def test_some_kernels_alone_do_not_replace_the_whole_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code("gen-refs", "--suite", "smoke", "-k", "kv_commit", "--jobs", "1") == 0
    assert [path.name for path in (tmp_path / "fixtures").iterdir()] == ["smoke-kv_commit"]
