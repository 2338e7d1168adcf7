"""A set appears whole or not at all: kills, rivals, readers that hold the old one, forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from store_cases import INFO, make_cases, same_value, write_small

from harness.case import Case
from harness.errors import FixtureError
from harness.store import open_set, write_set
from harness.store.publish import published_folder

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT), str(HERE)])
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


SLOW_WRITER = """
import sys, time
from pathlib import Path
from store_cases import INFO, make_cases
from harness.store import write_set
def slowly():
    for case in make_cases():
        yield case
        print("wrote", flush=True)
        time.sleep(0.2)
write_set(slowly(), Path(sys.argv[1]), INFO)
"""


def test_a_killed_writer_leaves_the_old_set_and_the_next_run_cleans_up(tmp_path: Path) -> None:
    target = tmp_path / "smoke"
    before = write_small(target)
    writer = start(SLOW_WRITER, str(target))
    assert writer.stdout is not None
    assert [writer.stdout.readline() for _ in range(3)] == ["wrote\n"] * 3
    live = [path.name for path in tmp_path.iterdir() if path != target]
    assert len(live) == 1 and live[0].startswith(".smoke.part-")
    write_small(target)  # a rival does not take a living writer's folder away
    assert (tmp_path / live[0]).exists()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    with open_set(target) as fixtures:
        assert fixtures.manifest == before
        assert len(list(fixtures.cases())) == len(make_cases())
    write_small(target)
    assert [path.name for path in tmp_path.iterdir()] == ["smoke"]


def test_a_failing_writer_leaves_the_old_set(tmp_path: Path) -> None:
    def failing() -> Iterator[Case]:
        yield make_cases()[0]
        raise KeyboardInterrupt

    before = write_small(tmp_path / "smoke")
    with pytest.raises(KeyboardInterrupt):
        write_set(failing(), tmp_path / "smoke", INFO)
    assert [path.name for path in tmp_path.iterdir()] == ["smoke"]
    with open_set(tmp_path / "smoke") as fixtures:
        assert fixtures.manifest == before


RIVAL = """
import sys
from dataclasses import replace
from pathlib import Path
from store_cases import INFO, make_cases
from harness.store import write_set
seed = int(sys.argv[2])
cases = [replace(case, seed=seed) for case in make_cases()]
for _ in range(6):
    write_set(cases, Path(sys.argv[1]), replace(INFO, root_seed=seed))
"""


def test_rivals_never_mix(tmp_path: Path) -> None:
    """While two writers replace the set again and again, every reader sees one whole set."""
    target = tmp_path / "smoke"
    write_small(target)
    rivals = [start(RIVAL, str(target), seed) for seed in ("1", "2")]
    seen: set[int] = set()
    while any(rival.poll() is None for rival in rivals):
        try:
            with open_set(target) as fixtures:
                seeds = {case.seed for case in fixtures.cases()}
                root = fixtures.manifest.info.root_seed
        except FixtureError:
            continue  # the set was replaced between its manifest and a file, and that was noticed
        assert seeds == {root} or root == INFO.root_seed
        seen.add(root)
    for rival in rivals:
        assert rival.wait() == 0
        assert rival.stdout is not None
        rival.stdout.close()
    assert seen & {1, 2}
    with open_set(target) as fixtures:
        assert {case.seed for case in fixtures.cases()} == {fixtures.manifest.info.root_seed}
    assert [path.name for path in tmp_path.iterdir()] == ["smoke"]


def test_a_reader_keeps_the_set_it_opened(tmp_path: Path) -> None:
    target = tmp_path / "smoke"
    write_small(target)
    with open_set(target) as fixtures:
        old = fixtures.case("verify_attn/small/n0")
        write_set([replace(old, seed=1)], target, INFO)
        for case in make_cases()[1:3]:  # pools that were not read before the swap
            again = fixtures.case(case.case_id)
            assert all(same_value(again.inputs[name], case.inputs[name]) for name in case.inputs)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_children_read_an_open_set(tmp_path: Path) -> None:
    target = tmp_path / "smoke"
    write_small(target)
    with open_set(target) as fixtures:
        fixtures.case("verify_attn/small/n0")
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                status = 1
                signal.alarm(
                    120
                )  # nothing else times a forked child: a stuck one must end, and fail the test
                try:
                    wanted = {case.case_id: case for case in make_cases()}
                    for _ in range(5):
                        for case in fixtures.cases():
                            mine = wanted[case.case_id]
                            assert all(
                                same_value(case.inputs[name], mine.inputs[name]) for name in mine.inputs
                            )
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [0] * 4
        assert len(list(fixtures.cases())) == len(make_cases())


def test_a_link_to_a_set_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "smoke").symlink_to(tmp_path / "disk", target_is_directory=True)
    write_small(tmp_path / "smoke")
    write_small(tmp_path / "smoke")
    assert (tmp_path / "smoke").is_symlink()
    with open_set(tmp_path / "smoke") as fixtures:
        assert len(list(fixtures.cases())) == len(make_cases())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "smoke"]


def test_without_an_exchanging_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.store.publish._RENAME_EXCHANGE", 1 << 20)  # the kernel answers EINVAL
    target = tmp_path / "folder"
    for text in ("one", "two"):
        with published_folder(target) as fresh:
            (fresh / "file").write_text(text)
        assert (target / "file").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_permissions_are_the_usual_ones(tmp_path: Path) -> None:
    write_small(tmp_path / "smoke")
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "smoke").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_reading_is_fast(tmp_path: Path) -> None:
    """Two thousand cases in well under a second; a generous bound, for busy machines."""
    case = make_cases()[4]
    cases = [replace(case, case_id=f"tree_accept/small/{i}") for i in range(2000)]
    write_set(cases, tmp_path / "smoke", INFO)
    started = time.perf_counter()
    with open_set(tmp_path / "smoke") as fixtures:
        assert sum(1 for _ in fixtures.cases()) == 2000
    assert time.perf_counter() - started < 2.0


def test_how_cases_are_batched_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_small(tmp_path / "many")
    monkeypatch.setattr("harness.store.spool._BATCH_BYTES", 1)  # each case alone
    write_small(tmp_path / "one")
    for path in (tmp_path / "many").iterdir():
        assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes(), path.name
