"""How a case becomes bytes: the encoding of its values, its text columns and its two hashes.

Encodings of a value: *plain* (the array), *recipe* (kind, seed, shape), *patched* (a recipe with some rows
replaced) and *sampled* (some rows of an expected array). ``payload_sha256`` is over what is equal on every
machine; ``integrity_sha256`` over everything. A recipe is hashed as what it is, not as the bytes it makes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from harness.case import ROW_AXES, AnyArray, Case, Expected, Patched, Recipe, RecipeKind, Sampled
from harness.contract import KERNELS
from harness.errors import HarnessError

Role = Literal["input", "expected"]
ROLES: tuple[Role, ...] = get_args(Role)
ABSENT, PLAIN, RECIPE, PATCHED, SAMPLED = range(5)
RECIPE_KINDS: tuple[RecipeKind, ...] = get_args(RecipeKind)
RECIPE_DTYPES: dict[RecipeKind, np.dtype[np.generic]] = {
    "bytes": np.dtype("u1"),
    "unit_bf16": np.dtype("<u2"),
}
_NO_ROWS = np.empty(0, dtype="<i8")
_COMPACT = json.JSONEncoder(separators=(",", ":"))


class Encoded(NamedTuple):
    """One value. ``data`` is 1-D little-endian: a plain array, or the rows of a patch or a sample."""

    encoding: int
    logical_dtype: str
    shape: tuple[int, ...]
    data: AnyArray
    rows: npt.NDArray[np.int64] = _NO_ROWS
    recipe_kind: int = 0
    recipe_seed: int = 0

    @property
    def is_float(self) -> bool:
        """Whether machines may differ in the last bits (expected values only)."""
        return self.data.dtype.kind == "f"


def encode(kernel: str, name: str, value: Expected) -> Encoded:
    """Encode one value. HarnessError for a dtype that the schema does not know."""
    if isinstance(value, Sampled):
        logical = logical_dtype(kernel, name, value.values.dtype)
        rows = np.ascontiguousarray(value.rows, dtype="<i8")
        return Encoded(SAMPLED, logical, value.shape, _flat(value.values), rows)
    if isinstance(value, np.ndarray):
        return Encoded(PLAIN, logical_dtype(kernel, name, value.dtype), value.shape, _flat(value))
    base = value if isinstance(value, Recipe) else value.base
    dtype = RECIPE_DTYPES[base.kind]
    kind, logical = RECIPE_KINDS.index(base.kind), logical_dtype(kernel, name, dtype)
    if isinstance(value, Recipe):
        return Encoded(RECIPE, logical, base.shape, np.empty(0, dtype), _NO_ROWS, kind, base.seed)
    if value.values.dtype != dtype or value.values.shape != (len(value.rows), base.shape[-1]):
        raise HarnessError(f"{kernel}/{name}: the patch does not fit its {base.kind} recipe; fix the family")
    rows = np.ascontiguousarray(value.rows, dtype="<i8")
    return Encoded(PATCHED, logical, base.shape, _flat(value.values), rows, kind, base.seed)


@cache
def logical_dtype(kernel: str, name: str, dtype: np.dtype[np.generic]) -> str:
    """What the stored numbers mean: a NumPy dtype name, or ``bfloat16`` for its bits in uint16."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise HarnessError(f"{kernel}/{name}: dtype {dtype} cannot be stored; fix the family")
    bf16 = any(a.name == name and a.dtype == "bf16" for a in KERNELS[kernel].arrays)
    return "bfloat16" if bf16 and (dtype.kind, dtype.itemsize) == ("u", 2) else dtype.name


def _flat(array: AnyArray) -> AnyArray:
    return np.ascontiguousarray(array, _stored(array.dtype)).reshape(-1)


@cache
def _stored(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return np.dtype("u1") if dtype == np.bool_ else dtype.newbyteorder("<")


def decode(encoding: int, logical: str, shape: tuple[int, ...], data: AnyArray, rows: AnyArray,
           kind: int, seed: int) -> Expected:  # fmt: skip
    """The value that `encode` was given, in arrays that the caller owns."""
    if encoding == PLAIN:
        return data.astype(np.bool_).reshape(shape) if logical == "bool" else data.reshape(shape)
    if encoding == SAMPLED:
        return Sampled(shape, rows, data.reshape(len(rows), *shape[ROW_AXES:]))
    base = Recipe(RECIPE_KINDS[kind], seed, shape)
    return base if encoding == RECIPE else Patched(base, rows, data.reshape(len(rows), shape[-1]))


def encode_values(case: Case) -> Iterator[tuple[Role, str, Encoded]]:
    """Every value of a case, inputs first, by name."""
    for role in ROLES:
        values = case.inputs if role == "input" else case.expected
        for name in sorted(values):
            yield role, name, encode(case.kernel, name, values[name])


@cache
def flags_json(flags: tuple[str, ...]) -> str:
    """JSON of the flags of a case."""
    return json.dumps(flags)


def number_json(numbers: Mapping[str, int | float]) -> str:
    """JSON of named numbers, sorted; a non-finite number as text, so that every JSON reader copes."""
    if not numbers:
        return "{}"
    plain = {
        name: (item if math.isfinite(item) else str(item))
        for name, number in sorted(numbers.items())
        for item in [number.item() if isinstance(number, np.generic) else number]
    }
    return _COMPACT.encode(plain)


def parse_number_json(text: str) -> dict[str, int | float]:
    """The inverse of `number_json`; ValueError for anything else."""
    body = json.loads(text)
    return {name: float(number) if isinstance(number, str) else number for name, number in body.items()}


def case_hashes(case: Case, values: list[tuple[Role, str, Encoded]]) -> tuple[str, str]:
    """``(payload_sha256, integrity_sha256)`` of a case; see docs/fixtures.md for the exact bytes."""
    payload, rest = hashlib.sha256(), hashlib.sha256()
    _feed(payload, case.kernel, case.policy, case.validity, flags_json(case.flags), number_json(case.scalars))
    for role, name, value in values:
        floats = role == "expected" and value.is_float
        if value.encoding == SAMPLED:  # which rows are compared is the same everywhere
            _feed(payload, name, "rows", str(len(value.rows)))
            payload.update(value.rows.data)
        _feed_value(rest if floats else payload, role, name, value)
    _feed(rest, case.case_id, case.family, str(case.seed), number_json(case.notes), payload.hexdigest())
    return payload.hexdigest(), rest.hexdigest()


def _feed(digest: hashlib._Hash, *parts: str) -> None:
    digest.update(_framed(*parts))


def _feed_value(digest: hashlib._Hash, role: Role, name: str, value: Encoded) -> None:
    kind = {PLAIN: "plain", SAMPLED: "sampled"}.get(value.encoding, RECIPE_KINDS[value.recipe_kind])
    seed, rows = value.recipe_seed, len(value.rows)
    digest.update(_head(role, name, value.logical_dtype, value.shape, kind, seed, rows))
    if rows:
        digest.update(value.rows.data)
    digest.update(value.data.data)


@lru_cache(1 << 12)
def _head(
    role: Role, name: str, logical: str, shape: tuple[int, ...], kind: str, seed: int, rows: int
) -> bytes:
    """What is hashed of a value before its rows and numbers: most cases have the same few of these."""
    return _framed(role, name, logical, ",".join(map(str, shape)), kind, str(seed), str(rows))


def _framed(*parts: str) -> bytes:
    raw = [part.encode() for part in parts]
    return b"".join([piece for part in raw for piece in (len(part).to_bytes(8, "little"), part)])
