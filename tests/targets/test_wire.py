"""Frames between the supervisor and its workers: whole, or named as damaged."""

from __future__ import annotations

import ast
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from harness.case import Patched, Recipe
from harness.observation import Job, Observation
from harness.runner import supervisor, wire


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
