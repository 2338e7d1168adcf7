"""What is compressed, and what numbers become as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from store_cases import INFO, make_cases, same_array

from harness.case import AnyArray, materialize
from harness.store import open_set, write_set
from harness.store.encode import number_json, parse_number_json

RANDOM = np.random.default_rng(1).integers(0, 150_000, (1, 100_000)).astype(np.int32)
RISING = np.arange(100_000, dtype=np.int32).reshape(1, -1)


@pytest.mark.parametrize(
    ("values", "compression"),
    [(RANDOM, None), (RISING, "gzip"), (RANDOM[:, :10_000], "gzip")],
    ids=["random", "rising", "small"],
)
def test_large_pools_that_hardly_shrink_stay_as_they_are(
    tmp_path: Path, values: AnyArray, compression: str | None
) -> None:
    case = next(case for case in make_cases() if case.kernel == "tree_accept")
    case = replace(case, inputs={**case.inputs, "node_token": values})
    write_set([case], tmp_path / "smoke", INFO)
    with h5py.File(tmp_path / "smoke" / "tree_accept.h5") as file:
        assert file["input/node_token/values"].compression == compression
    with open_set(tmp_path / "smoke") as fixtures:
        assert same_array(materialize(fixtures.case(case.case_id).inputs["node_token"]), values)


def test_equal_numbers_keep_their_own_text() -> None:
    texts = [number_json({"x": number}) for number in (0.0, -0.0, 0, 1, 1.0, np.float64(1), np.int32(1))]
    assert [text[5:-1] for text in texts] == ["0.0", "-0.0", "0", "1", "1.0", "1.0", "1"]
    numbers = {"b": float("-inf"), "a": 2}
    assert number_json(numbers) == '{"a":2,"b":"-inf"}' and parse_number_json(number_json(numbers)) == numbers
    assert number_json({}) == "{}"
