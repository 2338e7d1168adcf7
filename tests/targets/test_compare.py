"""The comparator can fail: every wrong answer that has passed a checker somewhere is refused here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import attention_case, case_of, tree_case

from harness.case import Patched, Recipe, materialize
from harness.errors import FixtureError
from harness.judge.compare import Comparison, attention_allowance, compare_case
from references.bf16 import bf16_to_float64, float_to_bf16

CASE = attention_case()
ALLOWED = attention_allowance(CASE.expected)


def right() -> dict[str, np.ndarray]:
    return {"out": float_to_bf16(CASE.expected["out"]), "lse": CASE.expected["lse"].copy()}


def compared(**changes: np.ndarray) -> Comparison:
    return compare_case(CASE, {**right(), **changes})


def changed(name: str, index: tuple[int, ...], value: float | int) -> Comparison:
    outputs = right()
    outputs[name][index] = value
    return compare_case(CASE, outputs)


def test_the_right_answer_is_right_and_shows_its_share() -> None:
    found = compared()
    assert found.right
    assert 0 < found.share < 0.51  # half an ulp of bf16 is half of the first term
    assert found.compared == CASE.expected["out"].size + CASE.expected["lse"].size
    assert found.worst.startswith("out[")


@pytest.mark.parametrize("bits", [0x7FC0, 0x7FC1, 0xFFC0, 0x7F81, 0xFF81, 0x7F80, 0xFF80])
def test_a_single_non_finite_out_is_wrong(bits: int) -> None:
    for index in ((0, 0, 0, 0), (1, 2, 1, 15), (1, 3, 0, 5)):  # the last two expect 0
        assert not changed("out", index, bits).right


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
def test_a_single_non_finite_lse_is_wrong(value: float) -> None:
    assert np.isfinite(CASE.expected["lse"][0, 0, 0])
    assert not changed("lse", (0, 0, 0), value).right


@pytest.mark.parametrize("value", [0.0, -1e30, np.inf, np.nan, np.finfo(np.float32).min])
def test_minus_infinity_is_answered_by_minus_infinity_alone(value: float) -> None:
    assert CASE.expected["lse"][1, 2, 0] == -np.inf
    assert not changed("lse", (1, 2, 0), value).right
    assert compared().right


@pytest.mark.parametrize("fill", [0, 0x7FC0, 0x3F80, 0x5A5A, 0xA5A5, 0x0001])
def test_constant_outputs_are_wrong(fill: int) -> None:
    assert not compared(out=np.full_like(right()["out"], fill)).right


@pytest.mark.parametrize("fill", [0.0, np.nan, -np.inf, np.inf, 1.0])
def test_constant_lse_is_wrong(fill: float) -> None:
    assert not compared(lse=np.full_like(right()["lse"], fill)).right


def test_both_all_nan_is_wrong_even_against_a_reference_of_nan() -> None:
    nan = {"out": np.full_like(right()["out"], 0x7FC0), "lse": np.full_like(right()["lse"], np.nan)}
    assert not compare_case(CASE, nan).right
    spoiled = {**CASE.expected, "lse": np.full_like(CASE.expected["lse"], np.nan)}
    assert not compare_case(replace(CASE, expected=spoiled), {**right(), "lse": nan["lse"]}).right


def test_a_reference_of_nan_in_out_is_a_fault_of_the_set() -> None:
    for name in ("out", "out_m"):
        spoiled = {**CASE.expected, name: np.full_like(CASE.expected[name], np.nan)}
        with pytest.raises(FixtureError, match="no finite allowance for out"):
            compare_case(replace(CASE, expected=spoiled), right())


def test_a_zero_reference_has_no_slack() -> None:
    dead = (1, 3, 0, 0)
    assert CASE.expected["out"][dead] == 0
    assert changed("out", dead, 0x8000).right  # -0.0 is 0
    for bits in (0x0001, 0x8001, 0x0080):  # denormals and the smallest normal number are not
        found = changed("out", dead, bits)
        assert not found.right
        assert found.share == 1e9


def test_the_edge_of_the_allowance() -> None:
    index = (0, 1, 1)
    for sign in (-1.0, 1.0):
        reference, allowed = float(CASE.expected["lse"][index]), float(ALLOWED["lse"][index])
        inside = np.float32(reference + sign * allowed * 0.98)
        outside = np.float32(reference + sign * allowed * 1.02)
        assert changed("lse", index, inside).right
        assert not changed("lse", index, outside).right


def test_the_allowance_is_the_documented_one() -> None:
    e = {name: np.float64(value) for name, value in CASE.expected.items()}
    i = (0, 2, 1)
    for column in range(16):
        out, m, d = e["out"][(*i, column)], e["out_m"][(*i, column)], e["lse_d"][i]
        assert ALLOWED["out"][(*i, column)] == 2**-8 * (abs(out) + m) + 2 * d * m
    assert e["visible"][0, 2] == 4  # two of the prefix, the root, itself
    assert ALLOWED["lse"][i] == e["lse_d"][i] + 4 * 2**-28 + 2**-23 * abs(e["lse"][i])
    assert ALLOWED["lse"][1, 2, 0] == 0


def test_the_first_wrong_element_is_named_exactly() -> None:
    outputs = right()
    outputs["lse"][0, 1, 1] += 1
    outputs["out"][1, 0, 0, 3] = 0x7FC0
    outputs["out"][1, 0, 1, 3] = 0x7F80
    found = compare_case(CASE, outputs)
    assert found.mismatch.array == "out"
    assert found.mismatch.index == (1, 0, 0, 3)
    assert (found.mismatch.wrong, found.mismatch.total) == (2, outputs["out"].size)
    assert found.mismatch.got == "nan"
    assert found.mismatch.expected.startswith(repr(float(CASE.expected["out"][1, 0, 0, 3])))
    assert found.others == ("lse",)
    assert found.share == pytest.approx(1 / ALLOWED["lse"][0, 1, 1], rel=1e-3)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 0xFFFF), st.integers(0, 2 * 4 * 2 * 16 - 1))
def test_any_bits_anywhere_are_judged_by_their_value(bits: int, flat: int) -> None:
    index = np.unravel_index(flat, CASE.expected["out"].shape)
    value = float(bf16_to_float64(np.array([bits], np.uint16))[0])
    reference = float(CASE.expected["out"][index])
    fine = np.isfinite(value) and abs(value - reference) <= ALLOWED["out"][index]
    assert changed("out", index, bits).right == bool(fine)


def test_absent_outputs_are_left_out_but_nothing_else() -> None:
    only_out = {"out": right()["out"]}
    assert compare_case(CASE, only_out, absent=("lse",)).right
    assert compare_case(CASE, only_out).misshapen == ("lse: missing",)


def test_lse_in_base_2() -> None:
    with np.errstate(invalid="ignore"):
        base2 = (CASE.expected["lse"].astype(np.float64) / np.log(2)).astype(np.float32)
    assert compare_case(CASE, {**right(), "lse": base2}, lse_base2=True).right
    assert not compare_case(CASE, {**right(), "lse": base2}).right


@pytest.mark.parametrize(
    "spoil",
    [
        lambda a: a.astype(np.int64),
        lambda a: a.astype(np.uint32),
        lambda a: a.astype(np.float32),
        lambda a: a[:, :-1],
        lambda a: a.reshape(-1),
        lambda a: a[..., None],
        lambda a: a[:0],
        lambda a: np.zeros((), np.int32),
        lambda a: a.astype(">i4"),
    ],
)
def test_another_dtype_or_shape_is_no_comparison(spoil) -> None:
    case = tree_case(5)
    found = compare_case(case, {**case.expected, "node_token": spoil(case.expected["node_token"])})
    assert not found.right
    assert found.mismatch is None
    assert found.misshapen[0].startswith("node_token: got ")


def test_every_single_integer_counts() -> None:
    case = tree_case(5)
    assert compare_case(case, dict(case.expected)).right
    for name, value in case.expected.items():
        for flat in range(value.size):
            outputs = {**case.expected, name: value.copy()}
            outputs[name].flat[flat] ^= outputs[name].dtype.type(1)
            found = compare_case(case, outputs)
            assert not found.right
            assert (found.mismatch.array, found.mismatch.wrong) == (name, 1)
            assert found.mismatch.index == tuple(np.unravel_index(flat, value.shape))


def test_masks_are_shown_in_hex() -> None:
    case = tree_case(5)
    outputs = {**case.expected, "tree_mask": case.expected["tree_mask"] ^ np.uint32(0x80000000)}
    assert compare_case(case, outputs).mismatch.got == "0x80000001"


def test_nothing_compared_is_not_right() -> None:
    case = tree_case(5)
    names = [name for name in case.expected]
    assert not compare_case(case, {}, absent=names).right
    assert compare_case(case, {}, absent=names).compared == 0


def test_missing_expected_values_are_a_fault_of_the_set() -> None:
    case = tree_case(5)
    fewer = {name: value for name, value in case.expected.items() if name != "position"}
    with pytest.raises(FixtureError, match="no expected position"):
        compare_case(replace(case, expected=fewer), dict(case.expected))
    with pytest.raises(FixtureError, match="no expected out_m"):
        compare_case(
            replace(CASE, expected={k: v for k, v in CASE.expected.items() if k != "out_m"}), right()
        )


def test_empty_axes_compare_their_shape() -> None:
    wide = {name: value[:0] for name, value in CASE.expected.items()}
    empty = replace(CASE, expected=wide)
    found = compare_case(empty, {"out": right()["out"][:0], "lse": right()["lse"][:0]})
    assert (found.misshapen, found.mismatch, found.right) == ((), None, False)  # nothing compared
    assert compare_case(empty, right()).misshapen


def test_whole_pools_are_compared_as_bytes() -> None:
    base = Recipe("bytes", 5, (1, 3, 4, 8))
    inputs = {
        "kv": base,
        "block_table": np.array([[2, 0]], np.int32),
        "prefix_len": np.array([3], np.int32),
        "accept_index": np.array([[0, 2, -1]], np.int32),
        "accept_len": np.array([1], np.int32),
    }
    case = case_of("kv_commit", inputs, {})
    assert isinstance(case.expected["kv"], Patched)
    outputs = {"kv": materialize(case.expected["kv"]), "new_len": case.expected["new_len"]}
    assert compare_case(case, outputs).right
    for flat in (0, 40, 95):
        spoiled = outputs["kv"].copy()
        spoiled.flat[flat] ^= np.uint8(128)
        assert compare_case(case, {**outputs, "kv": spoiled}).mismatch.array == "kv"
    assert not compare_case(case, {**outputs, "kv": base.materialize()}).right  # nothing moved
