"""What goes into a set comes out of it, bit for bit, and the file depends on nothing else."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from store_cases import INFO, make_cases, same_array, same_value, write_small

from harness.case import Case, Recipe, materialize
from harness.errors import HarnessError, UsageProblem
from harness.store import open_set, write_set
from harness.store.encode import case_hashes, encode_values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "smoke"
    write_small(path)
    return path


@pytest.mark.parametrize("case", make_cases(), ids=lambda case: case.case_id)
def test_a_case_comes_back(folder: Path, case: Case) -> None:
    with open_set(folder) as fixtures:
        got = fixtures.case(case.case_id)
    for name in ("case_id", "kernel", "family", "flags", "policy", "validity", "seed"):
        assert getattr(got, name) == getattr(case, name)
    assert repr(got.scalars) == repr(
        {k: float(v) if k == "scale" else v for k, v in sorted(case.scalars.items())}
    )
    assert repr(got.notes) == repr(dict(sorted(case.notes.items())))
    for before, after in ((case.inputs, got.inputs), (case.expected, got.expected)):
        assert sorted(before) == list(after)
        assert all(same_value(before[name], after[name]) for name in before)


def test_recipes_stay_recipes(folder: Path) -> None:
    with open_set(folder) as fixtures:
        assert fixtures.case("verify_attn/small/n1").inputs["kv"] == Recipe("unit_bf16", 41, (3, 2, 32))
    with h5py.File(folder / "kv_commit.h5") as file:  # a plain pool once, the two rows of a patch once
        assert len(file["input/kv/values"]) == 2 * 4 * 4 * 96 + 2 * 96


def test_absent_arrays_stay_absent(folder: Path) -> None:
    with open_set(folder) as fixtures:
        assert "head" not in fixtures.case("greedy_step/small/given").inputs
        assert "q" not in fixtures.case("greedy_step/small/planted").inputs


def test_order_summaries_and_dims(folder: Path) -> None:
    with open_set(folder) as fixtures:
        ids = [case.case_id for case in fixtures.cases()]
        assert fixtures.suite == "smoke"
        assert ids == [summary.case_id for summary in fixtures.summaries()]
        assert set(ids) == {case.case_id for case in make_cases()}
        assert [s.case_id for s in fixtures.summaries("kv_commit")] == [
            f"kv_commit/small/c{i}" for i in range(4)
        ]
        dims = {s.case_id: s.dims for s in fixtures.summaries()}
    assert dims["verify_attn/small/n2"] == {
        "B": 1, "N": 3, "Hq": 2, "Dk": 16, "G": 3, "S": 2, "R": 32, "M": 300, "Dv": 16,
    }  # fmt: skip
    assert dims["tree_accept/small/t0"]["T"] == 0


def test_unknown_names_are_usage_problems(folder: Path) -> None:
    with open_set(folder) as fixtures:
        for wrong in ("verify_attn/small/none", "no_kernel/x", ""):
            with pytest.raises(UsageProblem, match="no case"):
                fixtures.case(wrong)
        with pytest.raises(UsageProblem, match="tree_build"):
            fixtures.summaries("tree_build")


def test_arrays_belong_to_the_caller(folder: Path) -> None:
    with open_set(folder) as fixtures:
        first = fixtures.case("verify_attn/small/n2")
        for value in (*first.inputs.values(), *first.expected.values()):
            materialize(value)[...] = 1
        again = fixtures.case("verify_attn/small/n2")
    assert same_value(again.inputs["q"], make_cases()[2].inputs["q"])


def test_a_case_survives_its_set(folder: Path) -> None:
    fixtures = open_set(folder)
    case = fixtures.case("kv_commit/small/c1")
    fixtures.close()
    assert same_value(
        case.expected["kv"], next(c for c in make_cases() if c.case_id == case.case_id).expected["kv"]
    )


def test_two_writes_a_second_apart_are_equal_bytes(folder: Path, tmp_path: Path) -> None:
    time.sleep(1.1)
    write_small(tmp_path / "smoke")
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "smoke").iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "smoke" / name).read_bytes(), name


def test_layout_of_memory_does_not_matter(folder: Path, tmp_path: Path) -> None:
    def turned(case: Case) -> Case:
        def turn(value: object) -> object:
            if not isinstance(value, np.ndarray):
                return value
            return np.asfortranarray(value).astype(value.dtype.newbyteorder(">"))

        return replace(
            case,
            inputs={k: turn(v) for k, v in reversed(case.inputs.items())},  # type: ignore[misc]
            expected={k: turn(v) for k, v in case.expected.items()},  # type: ignore[misc]
        )

    write_set([turned(case) for case in make_cases()], tmp_path / "smoke", INFO)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "smoke" / path.name).read_bytes(), path.name


def test_a_second_reader_understands_it(folder: Path) -> None:
    """Plain h5py, by what docs/fixtures.md says."""
    with h5py.File(folder / "verify_attn.h5") as file:
        group = file["input/q"]
        assert group["values"].dtype == np.uint16
        assert group["values"].attrs["logical_dtype"] == "bfloat16"
        start, stop = group["offsets"][1:3]
        q = group["values"][start:stop].reshape(group["shapes"][1])
        assert [*file["cases/case_id"]][1] == b"verify_attn/small/n1"
    assert same_array(q, materialize(make_cases()[1].inputs["q"]))
    with h5py.File(folder / "tree_accept.h5") as file:
        assert file["input/flag/values"].attrs["logical_dtype"] == "bool"
        assert file["input/flag/encoding"][...].tolist() == [0, 1, 0, 1]


def test_every_dataset_carries_its_hash(folder: Path) -> None:
    def check(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            assert hashlib.sha256(item[()].tobytes()).hexdigest() == item.attrs["sha256"], name
            assert item.id.get_create_plist().get_obj_track_times() == 0

    for path in folder.glob("*.h5"):
        with h5py.File(path) as file:
            file.visititems(check)


def test_floats_are_not_part_of_the_reproducible_hash() -> None:
    case = next(c for c in make_cases() if c.case_id == "verify_attn/small/n1")
    lse = materialize(case.expected["lse"]).copy()
    lse[0, 0, 1] = np.nextafter(lse[0, 0, 1], np.float32(9))
    moved = replace(case, expected={**case.expected, "lse": lse})
    before, after = (case_hashes(c, list(encode_values(c))) for c in (case, moved))
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_everything_else_is_part_of_it() -> None:
    case = next(c for c in make_cases() if c.case_id == "verify_attn/small/n1")
    q = materialize(case.inputs["q"]).copy()
    q.flat[5] ^= 1
    others = [
        replace(case, inputs={**case.inputs, "q": q}),
        replace(case, inputs={**case.inputs, "kv": Recipe("unit_bf16", 42, (3, 2, 32))}),
        replace(case, inputs={**case.inputs, "q": materialize(case.inputs["q"]).reshape(2, 1, 2, 16)}),
        replace(case, scalars={**case.scalars, "scale": np.float32(0.2)}),
        replace(case, flags=("first",)),
        replace(case, policy="exact"),
        replace(case, validity="invalid"),
        replace(case, expected={**case.expected, "more": np.zeros(1, np.int32)}),
    ]
    hashes = {case_hashes(c, list(encode_values(c)))[0] for c in (case, *others)}
    assert len(hashes) == 1 + len(others)


def test_what_cannot_share_a_pool_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    one = make_cases()[3]
    other = replace(one, case_id="tree_accept/small/x", inputs={"stop_token": np.zeros(1, np.int64)})
    with pytest.raises(HarnessError, match="stop_token has mixed dtypes"):
        write_set([one, other], tmp_path / "smoke", INFO)
    bad = replace(one, inputs={"stop_token": np.array(["text"])})
    with pytest.raises(HarnessError, match="cannot be stored"):
        write_set([bad], tmp_path / "smoke", INFO)
    assert list(tmp_path.iterdir()) == []
