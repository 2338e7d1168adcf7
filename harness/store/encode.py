"""How a case becomes bytes: the encoding of its values, its text columns and its two hashes.

Encodings of a value: *plain* (the array), *recipe* (kind, seed, shape), *patched* (a recipe with some rows
replaced) and *sampled* (some rows of an expected array). ``payload_sha256`` is over what is equal on every
machine; ``integrity_sha256`` over everything. A recipe is hashed as what it is, not as the bytes it makes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Literal, NamedTuple, get_args

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


class Slot(NamedTuple):
    """Where a value belongs: values of one slot may share a pool.

    ``logical_dtype`` says what the stored numbers mean: bool stands in bytes, bfloat16 as its bits.
    """

    role: Role
    name: str
    dtype: np.dtype[np.generic]
    logical_dtype: str
    rank: int


@dataclass(frozen=True, eq=False)
class Head:
    """All that is known of a value but its numbers; ``items`` and ``rows`` say how many there are."""

    slot: Slot
    encoding: int
    shape: tuple[int, ...]
    items: int = 0
    rows: int = 0
    recipe_kind: int = 0
    recipe_seed: int = 0

    @cached_property
    def differs(self) -> bool:
        """Whether machines may differ in the last bits of the numbers."""
        return self.slot.role == "expected" and self.slot.dtype.kind == "f"

    @cached_property
    def hashed(self) -> bytes:
        """What is hashed of a value before its rows and numbers."""
        role, name, _, logical, _ = self.slot
        kind = {PLAIN: "plain", SAMPLED: "sampled"}.get(self.encoding, RECIPE_KINDS[self.recipe_kind])
        shape = ",".join(map(str, self.shape))
        return _framed(role, name, logical, shape, kind, str(self.recipe_seed), str(self.rows))


# One value: its head, its numbers and its rows. The numbers, 1-D and little-endian, are those of a plain
# array, or of the rows of a patch or a sample. (No class, because a small case would feel it.)
Encoded = tuple[Head, AnyArray, npt.NDArray[np.int64]]


def encode(kernel: str, role: Role, name: str, value: Expected) -> Encoded:
    """Encode one value. HarnessError for a dtype that the schema does not know."""
    if isinstance(value, np.ndarray):
        head = _plain_head(kernel, role, name, value.dtype, value.shape)
        return head, _flat(value, head.slot.dtype), _NO_ROWS
    if isinstance(value, Sampled):
        slot = _slot(kernel, role, name, value.values.dtype, len(value.shape))
        head = Head(slot, SAMPLED, value.shape, value.values.size, len(value.rows))
        return head, _flat(value.values, slot.dtype), _flat(value.rows, _NO_ROWS.dtype)
    base = value if isinstance(value, Recipe) else value.base
    kind, dtype = RECIPE_KINDS.index(base.kind), RECIPE_DTYPES[base.kind]
    slot = _slot(kernel, role, name, dtype, len(base.shape))
    if isinstance(value, Recipe):
        return Head(slot, RECIPE, base.shape, 0, 0, kind, base.seed), np.empty(0, dtype), _NO_ROWS
    if value.values.dtype != dtype or value.values.shape != (len(value.rows), base.shape[-1]):
        raise HarnessError(f"{kernel}/{name}: the patch does not fit its {base.kind} recipe; fix the family")
    head = Head(slot, PATCHED, base.shape, value.values.size, len(value.rows), kind, base.seed)
    return head, _flat(value.values, dtype), _flat(value.rows, _NO_ROWS.dtype)


@lru_cache(1 << 12)
def _plain_head(
    kernel: str, role: Role, name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> Head:
    """Few are distinct: they are made, pickled and worked out once."""
    return Head(_slot(kernel, role, name, dtype, len(shape)), PLAIN, shape, math.prod(shape))


@cache
def _slot(kernel: str, role: Role, name: str, dtype: np.dtype[np.generic], rank: int) -> Slot:
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise HarnessError(f"{kernel}/{name}: dtype {dtype} cannot be stored; fix the family")
    bf16 = any(a.name == name and a.dtype == "bf16" for a in KERNELS[kernel].arrays)
    logical = "bfloat16" if bf16 and (dtype.kind, dtype.itemsize) == ("u", 2) else dtype.name
    stored = np.dtype("u1") if dtype == np.bool_ else dtype.newbyteorder("<")
    return Slot(role, name, stored, logical, rank)


def _flat(array: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    return array.ravel().astype(dtype, copy=False)


def decode(encoding: int, logical: str, shape: tuple[int, ...], data: AnyArray, rows: AnyArray,
           kind: int, seed: int) -> Expected:  # fmt: skip
    """The value that `encode` was given, in arrays that the caller owns."""
    if encoding == PLAIN:
        return data.astype(np.bool_).reshape(shape) if logical == "bool" else data.reshape(shape)
    if encoding == SAMPLED:
        return Sampled(shape, rows, data.reshape(len(rows), *shape[ROW_AXES:]))
    base = Recipe(RECIPE_KINDS[kind], seed, shape)
    return base if encoding == RECIPE else Patched(base, rows, data.reshape(len(rows), shape[-1]))


def encode_values(case: Case) -> Iterator[Encoded]:
    """Every value of a case, inputs first, by name."""
    for role in ROLES:
        values = case.inputs if role == "input" else case.expected
        for name in sorted(values):
            yield encode(case.kernel, role, name, values[name])


@cache
def flags_json(flags: tuple[str, ...]) -> str:
    """JSON of the flags of a case."""
    return json.dumps(flags)


def number_json(numbers: Mapping[str, int | float]) -> str:
    """JSON of named numbers, sorted; a non-finite number as text, so that every JSON reader copes."""
    if not numbers:
        return "{}"
    # Known by their text too, because 0.0 and -0.0 are equal, and 1 and 1.0.
    return _number_json(tuple([(name, number, repr(number)) for name, number in sorted(numbers.items())]))


@lru_cache(1 << 10)
def _number_json(numbers: tuple[tuple[str, int | float, str], ...]) -> str:
    plain = {
        name: (item if math.isfinite(item) else str(item))
        for name, number, _ in numbers
        for item in [number.item() if isinstance(number, np.generic) else number]
    }
    return _COMPACT.encode(plain)


def parse_number_json(text: str) -> dict[str, int | float]:
    """The inverse of `number_json`; ValueError for anything else."""
    body = json.loads(text)
    return {name: float(number) if isinstance(number, str) else number for name, number in body.items()}


def case_hashes(case: Case, values: Iterable[Encoded]) -> tuple[str, str]:
    """``(payload_sha256, integrity_sha256)`` of a case; see docs/fixtures.md for the exact bytes."""
    payload, rest = hashlib.sha256(), hashlib.sha256()
    flags, scalars = flags_json(case.flags), number_json(case.scalars)
    payload.update(_opening(case.kernel, case.policy, case.validity, flags, scalars))
    for head, data, rows in values:
        if head.encoding == SAMPLED:  # which rows are compared is the same everywhere
            _feed(payload, head.slot.name, "rows", str(head.rows))
            payload.update(rows.data)
        digest = rest if head.differs else payload
        digest.update(head.hashed)
        if head.rows:
            digest.update(rows.data)
        digest.update(data.data)
    payload_sha256 = payload.hexdigest()
    _feed(rest, case.case_id, case.family, str(case.seed), number_json(case.notes), payload_sha256)
    return payload_sha256, rest.hexdigest()


def _feed(digest: hashlib._Hash, *parts: str) -> None:
    digest.update(_framed(*parts))


@lru_cache(1 << 10)
def _opening(*parts: str) -> bytes:
    """How payloads begin: many cases share it."""
    return _framed(*parts)


def _framed(*parts: str) -> bytes:
    raw = [part.encode() for part in parts]
    return b"".join([piece for part in raw for piece in (len(part).to_bytes(8, "little"), part)])
