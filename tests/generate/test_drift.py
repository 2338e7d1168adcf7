"""What `gen-refs --check` calls drift: any bit but the last ones of a float."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.case import AnyArray, Case, Patched, Recipe, materialize
from harness.generate.drift import case_difference, first_difference
from harness.store import FixtureSet, open_set, write_set


def _edited(small: Path, folder: Path, kernel: str, edit: object) -> FixtureSet:
    with open_set(small) as fixtures:
        cases = list(fixtures.cases())
        at = next(i for i, case in enumerate(cases) if case.kernel == kernel) + 1
        cases[at] = edit(cases[at])  # type: ignore[operator]
        write_set(cases, folder, fixtures.manifest.info)
    return open_set(folder)


def _with(case: Case, role: str, name: str, change: object) -> Case:
    values = dict(getattr(case, role))
    array: AnyArray = materialize(values[name]).copy()
    change(array)  # type: ignore[operator]
    return replace(case, **{role: {**values, name: array}})


def _bump(array: AnyArray) -> None:
    array.flat[1] += 1


def _last_bit(array: AnyArray) -> None:
    array.flat[1] = np.nextafter(array.flat[1], np.float32(np.inf))


@pytest.mark.parametrize(
    ("kernel", "edit", "found"),
    [
        ("tree_accept", lambda c: _with(c, "inputs", "node_token", _bump), "input node_token differs"),
        ("tree_accept", lambda c: _with(c, "expected", "out_token", _bump), "expected out_token differs"),
        ("verify_attn", lambda c: _with(c, "inputs", "q", _bump), "input q differs"),
        ("verify_attn", lambda c: _with(c, "expected", "lse", _bump), "expected lse differs at [0, 0, 1]"),
        ("verify_attn", lambda c: _with(c, "expected", "out", _last_bit), None),
        ("verify_attn", lambda c: _with(c, "expected", "lse", _last_bit), None),
        ("verify_attn", lambda c: replace(c, notes={"proved": 9.0}), None),
        ("verify_attn", lambda c: replace(c, scalars={**c.scalars, "scale": 0.5}), "scalars is"),
        ("verify_attn", lambda c: replace(c, flags=()), "flags is"),
        ("verify_attn", lambda c: replace(c, case_id="verify_attn/x"), "case verify_attn/x is stored where"),
        ("verify_attn", lambda c: replace(c, expected={}), "expected arrays are , generated"),
    ],
)  # fmt: skip
def test_drift_is_named(small: Path, tmp_path: Path, kernel: str, edit: object, found: str | None) -> None:
    with open_set(small) as fresh, _edited(small, tmp_path / "smoke", kernel, edit) as stored:
        difference = first_difference(stored, fresh)
    if found is None:
        assert difference is None
    else:
        assert difference is not None
        assert difference.startswith(f"{kernel}.h5: case {kernel}/")
        assert found in difference


def test_drift_in_what_is_there(small: Path, tmp_path: Path) -> None:
    with open_set(small) as fresh:
        cases = list(fresh.cases())
        write_set(cases[:-1], tmp_path / "less", fresh.manifest.info)
        write_set(list(fresh.cases("verify_attn")), tmp_path / "one", fresh.manifest.info)
        write_set(cases, tmp_path / "seed", replace(fresh.manifest.info, root_seed=5))
        with open_set(tmp_path / "less") as less, open_set(tmp_path / "one") as one:
            assert first_difference(less, fresh) == "tree_accept.h5: 4 cases stored, 5 generated"
            assert first_difference(one, fresh) == "tree_accept.h5: only in the generated set"
            assert first_difference(one, fresh, ["verify_attn"]) is None
        with open_set(tmp_path / "seed") as seed:
            assert first_difference(seed, fresh) == "manifest.json: root_seed is 5, generated 0"


def test_non_finite_floats_must_stand_in_the_same_places(small: Path) -> None:
    with open_set(small) as fixtures:
        case = next(fixtures.cases("verify_attn"))
    for value in (np.nan, np.inf, -np.inf):
        wrong = _with(case, "expected", "lse", lambda array, value=value: array.__setitem__((0, 0, 0), value))
        assert "expected lse differs" in str(case_difference(wrong, case))
        assert "expected lse differs" in str(case_difference(case, wrong))
        assert case_difference(wrong, wrong) is None


def test_recipes_are_compared_by_what_they_are(small: Path) -> None:
    with open_set(small) as fixtures:
        case = next(fixtures.cases("verify_attn"))
    recipe = Recipe("unit_bf16", 3, (2, 2, 16))
    patched = Patched(recipe, np.array([1]), np.ones((1, 16), np.uint16))
    one, two, three = (
        replace(case, inputs={**case.inputs, "kv": value})
        for value in (recipe, replace(recipe, seed=4), patched)
    )
    assert "comes from Recipe" in str(case_difference(one, two))
    assert "input kv differs at [0, 1, 0]" in str(case_difference(one, three))
    assert case_difference(three, three) is None
