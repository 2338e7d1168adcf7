"""Two cases that store a sample of rows, and what is in it."""

from __future__ import annotations

from functools import cache

import numpy as np

from harness.case import AnyArray, Case, Sampled, known
from harness.cases.base import make_case
from harness.cases.verify_attn.pairs import PAIRS
from harness.expect import run_reference

RAGGED = {"H": 4, "N": 17, "P": 65, "B": 32, "S": 7, "tree": "comb"}
ONE = {"H": 8, "N": 33, "P": 1024, "B": 1, "S": 33, "tree": "random"}


@cache
def case(ragged: bool = True) -> Case:
    return make_case(PAIRS, RAGGED if ragged else ONE, 0)


def sample(name: str, of: Case | None = None) -> Sampled:
    value = (of or case()).expected[name]
    assert isinstance(value, Sampled)
    return value


@cache
def answers() -> dict[str, AnyArray]:
    """All rows, by the reference."""
    return run_reference("verify_attn", case().inputs, case().scalars)


def other_row(live: bool) -> tuple[int, int, int]:
    """A row outside the sample, of a node that sees keys or of one that is not there."""
    visible = known(case().expected["visible"])
    for row in set(range(32 * 17 * 4)) - set(sample("out").rows.tolist()):
        place = tuple(int(i) for i in np.unravel_index(row, (32, 17, 4)))
        if bool(visible[place[:2]]) == live:
            return place[0], place[1], place[2]
    raise AssertionError
