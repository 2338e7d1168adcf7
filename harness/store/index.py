"""The index of one kernel's file: its columns in memory, its values by position.

Everything read is checked against the manifest and against itself (lengths, offsets, shapes, codes) before
memory is set aside for a value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast, get_args

import h5py

from harness.case import Case, Expected, Policy, Sampled, Validity, Value
from harness.contract import CONTRACT_VERSION, KERNELS
from harness.store.encode import ABSENT, ROLES, Role, parse_number_json
from harness.store.file import PinnedFile
from harness.store.manifest import SCHEMA, SCHEMA_VERSION, Manifest, check_version
from harness.store.pack import TEXT_COLUMNS, content_sha256
from harness.store.pool import ArrayIndex, read_array, read_column
from harness.store.samples import sample_fault


@dataclass(frozen=True)
class CaseSummary:
    """A case without its values. ``dims`` are the contract's dimensions that its shapes show."""

    case_id: str
    kernel: str
    family: str
    flags: tuple[str, ...]
    policy: Policy
    validity: Validity
    seed: int
    payload_sha256: str
    integrity_sha256: str
    dims: Mapping[str, int]


class KernelIndex:
    """``kernel``'s file of the set in ``folder``; FixtureError where it is not what the manifest says."""

    def __init__(self, folder: Path, kernel: str, manifest: Manifest) -> None:
        self._kernel, self._entry = kernel, manifest.files[kernel]
        self._file = PinnedFile(folder / f"{kernel}.h5", folder, manifest.info.suite, self._entry)
        self.close = self._file.close
        with self._file.hdf5() as file:
            self._check_root(file, folder, manifest)
            self._text = {name: self._strings(file[f"cases/{name}"]) for name in TEXT_COLUMNS}
            self._seeds = read_column(self._file, file["cases/seed"], self._entry.cases).tolist()
            # Lists: a half-read items() holds h5py's lock against other threads while an error keeps it so.
            self._arrays = {
                role: {
                    name: read_array(self._file, group, self._entry.cases)
                    for name, group in list(file.get(role, {}).items())
                }
                for role in ROLES
            }
            self._check_columns()
            self._shown = self._axes()
            self.summaries = [self._summary(i) for i in range(self._entry.cases)]
        self.positions = {case_id: i for i, case_id in enumerate(self._text["case_id"])}
        if len(self.positions) != self._entry.cases:
            raise self._file.error("two cases share an id", "cases/case_id")

    def case(self, i: int) -> Case:
        """The case at position ``i``."""
        known = self.summaries[i]
        with self._file.guard():
            return Case(
                case_id=known.case_id,
                kernel=self._kernel,
                family=known.family,
                flags=known.flags,
                policy=known.policy,
                validity=known.validity,
                seed=known.seed,
                inputs=self._inputs(i),
                scalars=dict(_numbers(self._text["scalars"][i])),
                expected=self._expected(i),
                notes=dict(_numbers(self._text["notes"][i])),
            )

    def _inputs(self, i: int) -> dict[str, Value]:
        values = self._values("input", i)
        for name, value in values.items():
            if isinstance(value, Sampled):
                raise self._file.error(f"input {name} of case {i} is a sample", f"input/{name}")
        return cast(dict[str, Value], values)

    def _expected(self, i: int) -> dict[str, Expected]:
        values = self._values("expected", i)
        if fault := sample_fault(self._kernel, values):
            raise self._file.error(f"case {i}: {fault}", "expected")
        return values

    def _values(self, role: Role, i: int) -> dict[str, Expected]:
        arrays = self._arrays[role].items()
        return {name: array.value(i) for name, array in arrays if array.encoding[i] != ABSENT}

    def _check_root(self, file: h5py.File, folder: Path, manifest: Manifest) -> None:
        attributes = dict(file.attrs)
        if attributes.get("schema") != SCHEMA:
            raise self._file.error(f"not a {SCHEMA} file")
        suite, path = manifest.info.suite, self._file.path
        check_version(path, "schema", attributes.get("schema_version"), SCHEMA_VERSION, folder, suite)
        check_version(path, "contract", attributes.get("contract_version"), CONTRACT_VERSION, folder, suite)
        wanted = {
            "kernel": self._kernel,
            "suite": suite,
            "root_seed": manifest.info.root_seed,
            "case_count": self._entry.cases,
            "reference_sha256": manifest.info.reference_sha256,
            "content_sha256": self._entry.content_sha256,
        }
        for name, value in wanted.items():
            if attributes.get(name) != value:
                raise self._file.error(f"attribute {name} is not the manifest's {value!r}")

    def _check_columns(self) -> None:
        if content_sha256(self._kernel, self._text, self._seeds) != self._entry.content_sha256:
            raise self._file.error("the columns do not match content_sha256", "cases")

    def _axes(self) -> list[tuple[tuple[str, ...], ArrayIndex]]:
        """Arrays of the contract whose shapes show its dimensions, with their axes."""
        pairs = [(a, self._arrays[role].get(a.name)) for role in ROLES for a in KERNELS[self._kernel].arrays]
        return [(a.dims, i) for a, i in pairs if i is not None and i.axes == len(a.dims)]

    def _strings(self, dataset: h5py.Dataset) -> list[str]:
        return [bytes(text).decode() for text in read_column(self._file, dataset, self._entry.cases)]

    def _summary(self, i: int) -> CaseSummary:
        policy, validity = self._text["policy"][i], self._text["validity"][i]
        if policy not in get_args(Policy) or validity not in get_args(Validity):
            raise self._file.error(f"case {i} has policy {policy!r}, validity {validity!r}", "cases")
        return CaseSummary(
            case_id=self._text["case_id"][i],
            kernel=self._kernel,
            family=self._text["family"][i],
            flags=_flags(self._text["flags"][i]),
            policy=cast(Policy, policy),
            validity=cast(Validity, validity),
            seed=self._seeds[i],
            payload_sha256=self._text["payload_sha256"][i],
            integrity_sha256=self._text["integrity_sha256"][i],
            dims=self._dims(i),
        )

    def _dims(self, i: int) -> Mapping[str, int]:
        shown = ((dims, a.shapes[i]) for dims, a in self._shown if a.encoding[i])
        return _bound(tuple(shown))


@lru_cache(1 << 12)
def _bound(shown: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]) -> Mapping[str, int]:
    """Sizes by letter, from axes and shapes of several arrays; the first says it. Most cases share them."""
    dims: dict[str, int] = {}
    for letters, shape in shown:
        for letter, size in zip(letters, shape, strict=True):
            dims.setdefault(letter, size)
    return dims


@lru_cache(1 << 12)
def _flags(text: str) -> tuple[str, ...]:
    """Flags of a case; few texts stand in many cases."""
    return tuple(json.loads(text))


@lru_cache(1 << 12)
def _numbers(text: str) -> Mapping[str, int | float]:
    """Named numbers of a case; few texts stand in many cases."""
    return parse_number_json(text)
