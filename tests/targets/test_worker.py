"""Frames, worker processes and their supervisor: what is damaged, dies or hangs stays one case's matter."""

from __future__ import annotations

import ast
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from made import HIT, tree_case

from harness.case import Patched, Recipe
from harness.errors import FixtureError, HarnessError
from harness.memory.buffers import GUARD, Arena
from harness.memory.cuda_driver import DriverError
from harness.memory.cuda_memory import LARGEST_KEPT, SMALLEST_KEPT, Allocations, DeviceBlock, kept_size
from harness.memory.host import HostMemory
from harness.observation import Job, Observation
from harness.results import Outcome
from harness.runner import supervisor, wire
from harness.runner.child import Child, Death
from harness.runner.supervisor import Settings, Supervisor
from harness.targets import Options

SETTINGS = Settings("reference", Options(), repeat=2, timeout=30.0)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)


def through_a_pipe(write, read=wire.receive):
    incoming, outgoing = os.pipe()
    writer = threading.Thread(target=lambda: (write(outgoing), os.close(outgoing)))
    writer.start()
    try:
        return read(incoming)
    finally:
        writer.join()
        os.close(incoming)


def test_jobs_survive_the_wire() -> None:
    recipe = Recipe("unit_bf16", 2**63 + 5, (2, 3, 8))
    patched = Patched(recipe, np.array([1, 4], np.int64), np.arange(16, dtype=np.uint16).reshape(2, 8))
    inputs = {
        "a": np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2],
        "empty": np.zeros((0, 5), np.float32),
        "scalar": np.array(7, np.uint32),
        "recipe": recipe,
        "patched": patched,
        "nan": np.array([np.nan, -0.0, np.inf], np.float32),
        "large": np.zeros(1_000_000, np.uint8),
    }
    job = Job("tree_build", inputs, {"budget": 8, "scale": np.float32(0.1).item()})
    packer = wire.Packer()
    message = wire.job_message(job, 3, packer)
    got, repeat = wire.read_job(*through_a_pipe(lambda fd: wire.send(fd, wire.framed(message, packer.parts))))
    assert (got.kernel, got.scalars, repeat) == (job.kernel, job.scalars, 3)
    for name in ("a", "empty", "scalar", "nan", "large"):
        assert got.inputs[name].dtype == inputs[name].dtype
        assert got.inputs[name].shape == inputs[name].shape
        assert got.inputs[name].tobytes() == inputs[name].tobytes()
    assert got.inputs["recipe"] == recipe
    np.testing.assert_array_equal(got.inputs["patched"].materialize(), patched.materialize())


def test_observations_survive_the_wire() -> None:
    first = {"x": np.array([1, 2], np.int32), "y": np.zeros((2, 0), np.float32)}
    seen = Observation("done", "text", (first, {}, {"x": np.array([1, 3], np.int32)}), ("a",), ("b",), ("c",),
                       0.5, ("lse",), True, True, ("note",))  # fmt: skip
    got = wire.read_observation(*through_a_pipe(lambda fd: wire.send_observation(fd, seen)))
    assert got.rounds[2]["x"].tolist() == [1, 3]
    assert got.rounds[0]["y"].shape == (2, 0)
    assert vars(got).keys() == vars(seen).keys()
    for name in set(vars(seen)) - {"rounds"}:
        assert getattr(got, name) == getattr(seen, name)


@pytest.mark.parametrize(
    "raw", [b"garbage that is long enough", b"ddt1", wire._HEAD.pack(b"ddt1", 2**31, 0),
            wire._HEAD.pack(b"ddt1", 2, 9) + b"{}", wire._HEAD.pack(b"ddt1", 3, 0) + b"{x}",
            wire._HEAD.pack(b"ddt1", 2, 0) + b"[]"],
)  # fmt: skip
def test_damaged_frames_are_named_so(raw: bytes) -> None:
    with pytest.raises(wire.WireError):
        through_a_pipe(lambda fd: os.write(fd, raw))


def test_an_end_between_frames_is_no_damage() -> None:
    with pytest.raises(wire.EndOfStream):
        through_a_pipe(lambda fd: None)


@pytest.mark.parametrize(
    "entry",
    [
        ["<i4", [9], 0],
        ["<i4", [1], -4],
        ["<i4", [-1], 0],
        ["|O", [1], 0],
        {"recipe": ["pickle", 1, [4]]},
    ],
)
def test_arrays_outside_of_their_frame_are_refused(entry: list[object] | dict[str, object]) -> None:
    with pytest.raises(wire.WireError):
        wire.unpack_value(entry, bytearray(16))
    with pytest.raises(wire.WireError):
        wire.read_observation({"rounds": []}, bytearray())


@pytest.mark.parametrize(
    "entry", [[], ["<i4", [1]], ["<i4", "a", 0], [["<i4"], [1], 0], ["<i4", [1.5], 0], {}, 7]
)
def test_entries_that_describe_no_array_are_damage(entry: object) -> None:
    told = {**{name: () for name in wire._PLAIN}, "status": "done", "rounds": [{"x": entry}]}
    with pytest.raises(wire.WireError, match="incomplete observation"):
        wire.read_observation(told, memoryview(bytearray(16)))


def test_the_wire_has_no_pickle() -> None:
    for module in (wire, supervisor):
        names = {
            alias.name
            for node in ast.walk(ast.parse(Path(module.__file__).read_text()))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert not names & {"pickle", "marshal", "shelve", "multiprocessing"}


def test_a_child_answers_dies_and_is_replaced() -> None:
    case = tree_case(5)
    child = Child("bad_targets:Exits", Options())
    try:
        child.send(Job(case.kernel, case.inputs, case.scalars), 2)
        seen = child.result(30.0)
        assert isinstance(seen, Observation)
        assert seen.rounds[1] == {}
        spoiled = tree_case(HIT)
        child.send(Job(spoiled.kernel, spoiled.inputs, spoiled.scalars), 2)
        assert child.result(30.0) == Death(Outcome.CRASH, "the target ended its process with code 0")
        child.send(Job(case.kernel, case.inputs, case.scalars), 2)  # a pipe without a reader
        assert isinstance(child.result(30.0), Death)
    finally:
        child.close()


def test_a_case_the_worker_cannot_run_leaves_it_alive() -> None:
    case = tree_case(5)
    child = Child("cpu", Options())
    try:
        child.send(Job(case.kernel, case.inputs, {}), 2)
        seen = child.result(30.0)
        assert isinstance(seen, Death)
        assert seen == Death(Outcome.HARNESS_ERROR, "tree_build scalars: budget missing", replace=False)
        child.send(Job(case.kernel, case.inputs, case.scalars), 2)
        assert isinstance(child.result(30.0), Observation)
    finally:
        child.close()


def test_the_worker_gets_no_expected_values_and_no_surplus_descriptors() -> None:
    assert "expected" not in {field for field in vars(Job("k", {}, {}))}
    child = Child("reference", Options())
    try:
        links = [os.readlink(f"/proc/{child._process.pid}/fd/{fd}")
                 for fd in os.listdir(f"/proc/{child._process.pid}/fd")]  # fmt: skip
        assert not [link for link in links if link.endswith(".h5")]
        assert len([link for link in links if link.startswith("pipe:")]) == 4  # work, result, stdout, stderr
    finally:
        child.close()


def run(plan, finish=lambda case, seen: None, load=None, settings=SETTINGS, jobs=2) -> Supervisor:
    runner = Supervisor(settings)
    runner.run(plan, jobs, load or (lambda name: tree_case(int(name))), finish)
    return runner


def test_every_case_is_finished_once() -> None:
    done: list[str] = []
    run([str(n) for n in range(1, 13)], lambda case, seen: done.append(case.case_id))
    assert sorted(done) == sorted(tree_case(n).case_id for n in range(1, 13))


def test_a_damaged_set_ends_the_run() -> None:
    def load(name: str):
        if name == "3":
            raise FixtureError("damaged")
        return tree_case(int(name))

    with pytest.raises(FixtureError, match="damaged"):
        run([str(n) for n in range(1, 9)], load=load)
    assert not [t for t in threading.enumerate() if t.name.startswith("ThreadPool")]


def test_after_many_deaths_the_rest_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_DEATHS", 2)
    done: list[Outcome] = []
    settings = Settings("bad_targets:Aborts", Options(), 2, 30.0)
    runner = run([str(HIT)] * 6, lambda case, seen: done.append(seen.outcome), settings=settings, jobs=1)
    assert runner.stopped == "2 workers died"
    assert done == [Outcome.CRASH] * 2


def test_interruption_kills_the_workers() -> None:
    def finish(case, seen) -> None:
        raise KeyboardInterrupt

    runner = Supervisor(SETTINGS)
    pids = [child._process.pid for child in runner._children]
    with pytest.raises(KeyboardInterrupt):
        runner.run(["3", "4", "5"], 1, lambda name: tree_case(int(name)), finish)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_target_that_hangs_while_it_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.runner.child.START_SECONDS", 1.0)
    start = time.monotonic()
    with pytest.raises(HarnessError, match="slow:T cannot be opened: no answer within 2 s"):
        Child("slow:T", Options(), 1.0)
    with pytest.raises(HarnessError, match="no answer within 3 s"):
        Supervisor(Settings("slow:T", Options(), repeat=2, timeout=2.0))
    assert time.monotonic() - start < 20


def arena(**sizes: int) -> Arena:
    return Arena(HostMemory(), sizes, 0)


def test_guards_surround_every_array() -> None:
    made = arena(a=5, empty=0, b=300)
    made.fill("a", 1)
    made.fill("b", 2)
    made.seal()
    made.fetch()
    assert (made.guard_hits(), made.changed("a")) == ((), False)
    assert made.address("empty") == made.address("absent") == 0
    assert made.address("a") % 256 == made.address("b") % 256 == 0
    hits = [
        ("a", 5, "a: 1 bytes changed from 0 bytes past its end"),
        ("a", -1, "a: 1 bytes changed up to 1 bytes before its start"),
        ("b", -1, "b: 1 bytes changed up to 1 bytes before its start"),
        ("a", 5 + GUARD - 1, "past its end"),
        ("b", -GUARD, "before its start"),
        ("b", 300 + GUARD - 1, f"b: 1 bytes changed from {GUARD - 1} bytes past its end"),
    ]
    for name, offset, words in hits:
        made.seal()
        HostMemory().upload(made.address(name) + offset, np.array([123], np.uint8))
        made.fetch()
        [hit] = made.guard_hits()
        assert hit.endswith(words)
        assert not made.changed("a")


def test_an_arena_without_payload_takes_no_memory() -> None:
    made = Arena(None, {"a": 0, "b": 0}, 1)  # type: ignore[arg-type]
    made.fill("a", 1)
    made.seal()
    made.fetch()
    assert (made.address("a"), made.guard_hits(), made.changed("b"), made.has("b")) == (0, (), False, True)


class CountingDriver:
    def __init__(self) -> None:
        self.made, self.freed, self.waits = [], [], 0

    def allocate(self, nbytes: int) -> int:
        self.made.append(nbytes)
        return 4096 * len(self.made)

    def free(self, address: int) -> None:
        self.freed.append(address)

    def synchronize(self) -> None:
        self.waits += 1


class SmallDriver(CountingDriver):
    """A device with room for `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.sizes = room, {}

    def allocate(self, nbytes: int) -> int:
        if sum(self.sizes.values()) + nbytes > self.room:
            raise DriverError("cuMemAlloc_v2", 2, "CUDA_ERROR_OUT_OF_MEMORY")
        address = super().allocate(nbytes)
        self.sizes[address] = nbytes
        return address

    def free(self, address: int) -> None:
        super().free(address)
        del self.sizes[address]


def test_device_memory_is_used_again_once_it_is_dropped() -> None:
    driver = CountingDriver()
    allocations = Allocations(driver)  # type: ignore[arg-type]
    held = [DeviceBlock(allocations, 1000), DeviceBlock(allocations, SMALLEST_KEPT)]
    first = held[0].address
    assert first != held[1].address
    held.pop(0)
    held.append(DeviceBlock(allocations, 5))
    assert (held[-1].address, driver.waits) == (first, 1)  # nothing under way may still write there
    assert driver.made == [SMALLEST_KEPT] * 2
    large = DeviceBlock(allocations, LARGEST_KEPT + 1)
    gone = large.address
    del large
    assert driver.freed == [gone]
    assert driver.made[-1] == LARGEST_KEPT + 1
    assert DeviceBlock(allocations, SMALLEST_KEPT + 1).address not in {block.address for block in held}
    assert driver.made[-1] == 2 * SMALLEST_KEPT


def test_kept_memory_makes_room_for_other_sizes() -> None:
    mib = 1 << 20
    driver = SmallDriver(1000 * mib)
    allocations = Allocations(driver)  # type: ignore[arg-type]
    held = [DeviceBlock(allocations, 33 * mib) for _ in range(29)]
    held.clear()
    held = [DeviceBlock(allocations, 17 * mib) for _ in range(55)]
    assert len({block.address for block in held}) == 55
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        DeviceBlock(allocations, 200 * mib)


@pytest.mark.parametrize("nbytes", [1, 5000, SMALLEST_KEPT, SMALLEST_KEPT + 1, 3 << 20, LARGEST_KEPT])
def test_sizes_of_kept_memory_are_few_and_close(nbytes: int) -> None:
    size = kept_size(nbytes)
    assert nbytes <= size <= max(SMALLEST_KEPT, 2 * nbytes) and size - nbytes < 2 << 20
    assert kept_size(size) == size


def test_runs_have_other_addresses() -> None:
    memory = HostMemory()
    first = Arena(memory, {"a": 64}, 0)
    assert first.address("a") != Arena(memory, {"a": 64}, 1).address("a")
