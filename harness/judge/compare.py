"""Outputs of a target against expected outputs. A comparison can only fail or show what it compared.

Policy ``exact``: every array bit for bit. Policy ``attention``: ``out`` and ``lse`` within the allowance of
the contract, everything else bit for bit. Where a value is not finite on either side, only equality passes:
-inf equals -inf, and a NaN equals nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from harness.allowance import Floats, allowed_lse, allowed_out
from harness.case import AnyArray, Case, Expected, Sampled, known
from harness.contract import KERNELS, Array
from harness.errors import FixtureError
from harness.judge.rows import described, impossible, placed, sample_of
from harness.results import Mismatch
from harness.shapes import outputs_of, shape_of

SHARE_CAP = 1e9  # a share is reported no larger than this, so that it is a number
_LN2 = 0.6931471805599453
_SMALL = 1 << 16  # bytes of an array whose copy costs less than an elementwise comparison

Text = Callable[[tuple[int, ...]], str]
_TEXT: dict[str, Callable[[object], str]] = {
    "u32": lambda v: f"0x{v:08x}",
    "bf16": lambda v: f"0x{v:04x}",
    "f32": lambda v: repr(float(cast("float", v))),
}


@dataclass(frozen=True)
class Comparison:
    """What a comparison found. ``right`` only where something was compared and nothing was wrong."""

    compared: int  # elements
    misshapen: tuple[str, ...] = ()  # arrays of another dtype or shape, or missing, in words
    mismatch: Mismatch | None = None  # the first wrong element: earliest step, then contract order
    others: tuple[str, ...] = ()  # names of further wrong arrays
    share: float | None = None  # largest share of an allowance that any element used
    worst: str = ""  # the element with that share, in words
    sampled: str = ""  # how many rows were compared, where the case stores a sample of them

    @property
    def right(self) -> bool:
        """True where every output is there and right."""
        return self.compared > 0 and not self.misshapen and self.mismatch is None


@dataclass(frozen=True)
class _Wrong:
    mismatch: Mismatch | None
    share: float | None = None
    worst: str = ""


def compare_case(
    case: Case, outputs: Mapping[str, AnyArray], *, absent: Collection[str] = (), lse_base2: bool = False
) -> Comparison:
    """Compare every output that the case expects, but for those named in ``absent``.

    ``lse_base2`` says that ``lse`` is a base-2 logarithm. FixtureError where the expected values cannot
    serve the policy.
    """
    arrays = [a for a in outputs_of(KERNELS[case.kernel], case.inputs) if a.name not in absent]
    expected = _expected_of(case, arrays)
    if case.policy == "exact" and (equal := _equal_bytes(arrays, expected, outputs)):
        return Comparison(equal)
    misshapen = tuple(filter(None, (_shape_fault(a, expected[a.name], outputs.get(a.name)) for a in arrays)))
    if misshapen:
        return Comparison(0, misshapen)
    allowed = attention_allowance(case.expected) if case.policy == "attention" else {}
    compared, found = 0, []
    for array in arrays:
        value, got = expected[array.name], outputs[array.name]
        want = known(value)
        compared += want.size
        if array.name in allowed:
            scale = _LN2 if lse_base2 and array.name == "lse" else 1.0
            picked = value.pick(got) if isinstance(value, Sampled) else got
            wrong = _within(array, want, picked, allowed[array.name], scale)
            if isinstance(value, Sampled):
                wrong = _of_sample(array.name, wrong, value, got, known(expected["visible"]))
            found.append((array, wrong))
        else:
            found.append((array, _equal(array, want, got)))
    sample = sample_of(expected)
    return replace(_summary(compared, found), sampled=described(sample) if sample else "")


def _equal_bytes(
    arrays: list[Array], expected: Mapping[str, Expected], outputs: Mapping[str, AnyArray]
) -> int:
    """How many elements there are, where all are equal: most cases need no closer look. Else 0."""
    elements = 0
    for array in arrays:
        want, got = expected[array.name], outputs.get(array.name)
        if not isinstance(want, np.ndarray) or got is None or want.nbytes > _SMALL:
            return 0
        if not want.dtype == got.dtype == array.numpy_dtype or want.shape != got.shape:
            return 0
        if want.tobytes() != got.tobytes():
            return 0
        elements += want.size
    return elements


def attention_allowance(expected: Mapping[str, Expected]) -> dict[str, Floats]:
    """The largest difference that ``out`` and ``lse`` may show, element by element (`harness.allowance`).

    Of a sample: of its rows.
    """
    out, m, lse, d = (known(expected[name]).astype(np.float64) for name in ("out", "out_m", "lse", "lse_d"))
    visible, sample = known(expected["visible"]), expected["lse"]
    if isinstance(sample, Sampled):
        visible = visible.reshape(-1)[sample.rows // sample.shape[-1]]
        lse_allowed = allowed_lse(lse[:, None], d[:, None], visible)[:, 0]
    else:
        lse_allowed = allowed_lse(lse, d, visible)
    allowed = {"out": allowed_out(out, m, d), "lse": lse_allowed}
    for name, values in allowed.items():
        if not (np.isfinite(values) & (values >= 0.0)).all():
            raise FixtureError(f"the expected values give no finite allowance for {name}; make the set again")
    return allowed


def _expected_of(case: Case, arrays: list[Array]) -> Mapping[str, Expected]:
    wanted = [a.name for a in arrays]
    if case.policy == "attention":
        wanted += ["out", "out_m", "lse", "lse_d", "visible"]
    missing = sorted({name for name in wanted if name not in case.expected})
    if missing:
        raise FixtureError(f"{case.case_id}: no expected {', '.join(missing)}; make the set again")
    return case.expected


def _shape_fault(array: Array, expected: Expected, got: AnyArray | None) -> str:
    if got is None:
        return f"{array.name}: missing"
    shape, dtype = shape_of(expected), array.numpy_dtype
    if got.dtype == dtype and got.shape == shape:
        return ""
    return f"{array.name}: got {got.dtype.name}{list(got.shape)}, want {dtype.name}{list(shape)}"


def _of_sample(name: str, wrong: _Wrong, sample: Sampled, got: AnyArray, visible: AnyArray) -> _Wrong:
    """What the rows of a sample show, and else what the others cannot show."""
    if wrong.mismatch is not None:
        return replace(wrong, mismatch=placed(wrong.mismatch, sample))
    return replace(wrong, mismatch=impossible(name, got, visible))


def _equal(array: Array, want: AnyArray, got: AnyArray) -> _Wrong:
    if want.nbytes <= _SMALL and want.tobytes() == got.tobytes():
        return _Wrong(None)
    bad = _bits(want) != _bits(got)
    if not bad.any():
        return _Wrong(None)
    text = _TEXT.get(array.dtype, str)
    return _Wrong(_first(array.name, bad, lambda i: text(want[i]), lambda i: text(got[i])))


def _within(array: Array, want: AnyArray, got: AnyArray, allowed: Floats, scale: float) -> _Wrong:
    reference = want.astype(np.float64)
    values = _values(array, got) * scale
    finite = np.isfinite(reference) & np.isfinite(values)
    distance = np.abs(np.where(finite, values, 0.0) - np.where(finite, reference, 0.0))
    bad = np.where(finite, distance > allowed, ~(values == reference))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = np.where(finite & (distance > 0.0), distance / allowed, 0.0)
    share = np.minimum(share, SHARE_CAP)
    where = np.unravel_index(int(share.argmax()), share.shape) if share.size else ()
    largest = float(share[where]) if share.size else 0.0
    worst = f"{array.name}{_place(where)} at {largest:.3g} of its allowance" if share.size else ""
    if not bad.any():
        return _Wrong(None, largest, worst)
    first = _first(
        array.name,
        bad,
        lambda i: f"{float(reference[i])!r} +- {float(allowed[i])!r}",
        lambda i: repr(float(values[i])),
    )
    return _Wrong(first, largest, worst)


def _values(array: Array, got: AnyArray) -> Floats:
    if array.dtype == "bf16":
        got = (got.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN raises the flag in the cast
        return got.astype(np.float64)


def _bits(values: AnyArray) -> AnyArray:
    if values.dtype.kind != "f":
        return values
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").reshape(values.shape)


def _first(name: str, bad: AnyArray, want: Text, got: Text) -> Mismatch:
    index = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
    return Mismatch(name, index, want(index), got(index), int(np.count_nonzero(bad)), bad.size)


def _summary(compared: int, found: list[tuple[Array, _Wrong]]) -> Comparison:
    wrong = [(a, w.mismatch) for a, w in found if w.mismatch is not None]
    # The earliest step explains the later ones; `sorted` is stable, so contract order breaks ties.
    wrong.sort(key=lambda pair: pair[1].index[0] if pair[0].dims[0] == "U" else 2**31)
    shares = [(w.share, w.worst) for _, w in found if w.share is not None]
    share, worst = max(shares, default=(None, ""), key=lambda pair: pair[0] or 0.0)
    return Comparison(
        compared,
        mismatch=wrong[0][1] if wrong else None,
        others=tuple(a.name for a, _ in wrong[1:]),
        share=share,
        worst=worst,
    )


def _place(index: tuple[object, ...]) -> str:
    return f"[{', '.join(str(i) for i in index)}]"
