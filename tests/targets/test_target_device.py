"""Device targets, with a driver made of host memory: the calls, their order, and what errors become."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import verify
from harness.errors import EnvironmentProblem
from harness.memory.cuda_driver import DriverError
from harness.results import Outcome
from harness.targets.engine import NEVER_LATE


@pytest.fixture
def driver(fake_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Workers find the fake driver first; this process never loads it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_cuda))
    return monkeypatch


@pytest.fixture(scope="module")
def device_library(faulty) -> str:
    return str(faulty("NONE", "-DDEVICE"))


def test_everything_passes_on_device_memory(small_set: Path, driver, device_library: str) -> None:
    results = verify(small_set, device_library)
    assert (results.totals["PASS"], results.exit_reason) == (results.planned, "")
    assert (results.target.memory, results.target.timing) == ("device", "event")
    assert results.run.options["jobs"] == 1
    assert NEVER_LATE not in " ".join(results.notes)
    facts = results.environment.facts
    assert (facts["device"], facts["compute capability"]) == ("Fake GPU", "9.0")
    assert facts["driver"].startswith("CUDA 13.1")
    assert all(c.seconds is not None and c.seconds >= 0 for c in results.cases)


def test_a_driver_that_cannot_capture_is_a_noted_fact(small_set: Path, driver, device_library: str) -> None:
    [note] = verify(small_set, device_library, kernels=("greedy_step",)).notes
    assert note.startswith("greedy_step was not captured in a graph: cuStreamBeginCapture_v2 failed with ")
    assert note.endswith("(3 cases)")


def test_a_graph_that_replays_nothing_is_found_out(small_set: Path, driver, device_library: str) -> None:
    driver.setenv("FAKE_CUDA_CAPTURE", "1")
    results = verify(small_set, device_library, kernels=("greedy_step",))
    assert results.totals["WRONG_VALUES"] == results.planned
    assert all(c.message.endswith("in run 2 only") for c in results.cases)
    assert results.notes == ()


def test_a_device_fault_is_a_crash_and_the_rest_goes_on(small_set: Path, driver, device_library: str) -> None:
    driver.setenv("FAKE_CUDA_FAULT", "40")
    results = verify(small_set, device_library)
    assert set(c.outcome for c in results.cases) == {Outcome.PASS, Outcome.CRASH}
    messages = {c.message for c in results.cases if c.outcome is Outcome.CRASH}
    fault = "device fault: cuCtxSynchronize failed with CUDA_ERROR_ILLEGAL_ADDRESS (700)"
    assert all(message.startswith(fault) for message in messages) and messages


def test_guards_are_watched_on_device_memory(small_set: Path, driver, faulty) -> None:
    results = verify(small_set, str(faulty("PAST_END", "-DDEVICE")), kernels=("tree_build",))
    assert (results.totals["GUARD_HIT"], results.totals["PASS"]) == (1, results.planned - 1)


def test_no_device(small_set: Path, driver, device_library: str) -> None:
    driver.setenv("FAKE_CUDA_DEVICES", "0")
    with pytest.raises(EnvironmentProblem, match=r"CUDA_ERROR_NO_DEVICE \(100\).*use --target cpu"):
        verify(small_set, device_library)


def test_no_driver(small_set: Path, device_library: str, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")  # also hides a real driver of this machine
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=r"libcuda.so.1 cannot be loaded\); run on a machine with"):
        verify(small_set, device_library)


def test_only_context_errors_are_fatal() -> None:
    assert DriverError("cuMemAlloc_v2", 2, "CUDA_ERROR_OUT_OF_MEMORY").fatal is False
    assert DriverError("cuCtxSynchronize", 719, "CUDA_ERROR_LAUNCH_FAILED").fatal is True
    assert str(DriverError("cuInit", 5, "")) == "cuInit failed with an unnamed error (5)"
