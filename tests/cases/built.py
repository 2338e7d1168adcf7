"""Cases of the families under test, each built once per process."""

from __future__ import annotations

from functools import cache

import numpy as np

from harness.case import AnyArray, Case, materialize
from harness.cases import FAMILIES
from harness.cases.base import Family, make_case

KERNELS = ("tree_build", "tree_accept", "kv_commit", "greedy_step")
SEED = 20260901


def families(kernel: str) -> list[Family]:
    """The families of a kernel that this folder's tests are about; planted steps are tested apart."""
    return [f for f in FAMILIES if f.kernel == kernel and not f.name.startswith("planted")]


@cache
def cases(kernel: str, family: str = "", suite: str = "standard") -> tuple[Case, ...]:
    """All cases of a kernel, or of one of its families."""
    if not family:
        return tuple(case for f in families(kernel) for case in cases(kernel, f.name, suite))
    (found,) = [f for f in families(kernel) if f.name == family]
    return tuple(make_case(found, params, SEED) for params in found.plan(suite))


def inputs(case: Case) -> dict[str, AnyArray]:
    return {name: materialize(value) for name, value in case.inputs.items()}


def expected(case: Case) -> dict[str, AnyArray]:
    return {name: materialize(value) for name, value in case.expected.items()}


def parameter(case: Case, name: str) -> str:
    """The value of one parameter, read back from the case id."""
    text = case.case_id.rsplit("/", 1)[1].rsplit("-", 1)[0]
    for part in text.split("-"):
        if part.startswith(name + "_"):
            return part[len(name) + 1 :]
        if part.startswith(name) and part[len(name) :].isdigit():
            return part[len(name) :]
    raise KeyError(f"{case.case_id} has no parameter {name}")


def exclusive_slots(table: AnyArray, prefix: AnyArray, tails: list[int], page_slots: int, pages: int) -> None:
    """Assert that slots below prefix + tail are mapped and that tail slots belong to one request alone."""
    owner: dict[int, int] = {}
    reach: dict[int, set[int]] = {}
    for b, (first, tail) in enumerate(zip(prefix.tolist(), tails, strict=True)):
        slots = np.arange(first + tail if tail else 0)
        page = table[b, slots // page_slots].astype(np.int64)
        assert ((page >= 0) & (page < pages)).all()
        row = page * page_slots + slots % page_slots
        assert len(set(row.tolist())) == len(row)
        reach[b] = set(row.tolist())
        for r in row[first:].tolist():
            assert r not in owner
            owner[r] = b
    for b, own in reach.items():
        assert all(owner.get(r, b) == b for r in own)
