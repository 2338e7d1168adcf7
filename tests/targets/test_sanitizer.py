"""Libraries built with a sanitizer are run as they are, and findings become outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import verify
from harness.results import Outcome
from harness.targets import sanitizer, worker_environment


def test_runtimes_are_read_from_the_library(tmp_path: Path) -> None:
    library = tmp_path / "some.so"
    library.write_bytes(b"\x7fELF..libasan.so.8\0libubsan.so.1\0libasan.so.8\0libtsan.so.2x")
    assert sanitizer.runtimes(library) == ["libasan.so.8", "libtsan.so.2", "libubsan.so.1"]
    library.write_bytes(b"\x7fELF..libc.so.6\0")
    assert sanitizer.runtimes(library) == []
    assert sanitizer.runtimes(tmp_path / "absent.so") == []


def test_the_users_own_settings_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "some.so"
    library.write_bytes(b"libtsan.so.2\0")
    monkeypatch.setenv("LD_PRELOAD", "libmine.so")
    monkeypatch.setenv("TSAN_OPTIONS", "suppressions=mine")
    made = worker_environment(str(library))
    assert made["LD_PRELOAD"] == "libtsan.so.2 libmine.so"
    assert made["TSAN_OPTIONS"].endswith(":suppressions=mine")
    assert worker_environment("reference") == worker_environment("mine:Class") == {}


def test_a_read_of_a_guard_is_seen_under_asan_alone(small_set: Path, faulty) -> None:
    plain = verify(small_set, str(faulty("READS_GUARD")), kernels=("tree_build",), jobs=1)
    assert plain.exit_reason == ""
    watched = verify(
        small_set, str(faulty("READS_GUARD", "-fsanitize=address")), kernels=("tree_build",), jobs=1
    )
    [bad] = [c for c in watched.cases if c.outcome is not Outcome.PASS]
    assert bad.outcome is Outcome.CRASH
    assert "AddressSanitizer: use-after-poison" in bad.message
