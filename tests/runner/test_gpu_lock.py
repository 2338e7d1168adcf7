"""One run at a time on a GPU."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.errors import EnvironmentProblem
from harness.runner.gpu_lock import alone_on_gpu, lock_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_second_run_waits_and_says_so(tmp_path: Path) -> None:
    lines: list[str] = []
    entered = threading.Event()

    def second() -> None:
        with alone_on_gpu(lines.append):
            entered.set()

    with alone_on_gpu(lines.append):
        assert lines == []
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(10)
    thread.join()
    [line] = lines
    assert line.startswith("another run uses this GPU (ddtree-harness-gpu-0.lock); waiting")


def test_a_run_that_was_killed_holds_no_lock(tmp_path: Path) -> None:
    code = "import sys, time\nfrom harness.runner.gpu_lock import alone_on_gpu\n"
    code += "with alone_on_gpu(print):\n print('in', flush=True)\n time.sleep(60)"
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert holder.stdout is not None and holder.stdout.readline() == "in\n"
    holder.kill()
    holder.wait()
    holder.stdout.close()
    lines: list[str] = []
    with alone_on_gpu(lines.append):
        assert lines == []


def test_each_gpu_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for visible in ("0", "1", "GPU-3f1/..", "1,0"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert lock_path().parent == lock_path().parent.resolve()
        names.add(lock_path().name)
    assert len(names) == 3


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock_path().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentProblem, match="set TMPDIR"), alone_on_gpu(print):
        pass
    assert not (tmp_path / "elsewhere").exists()
