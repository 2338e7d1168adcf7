"""The cases that mutants run: each family's smoke cases, and of standard one for every new parameter value.

A module with ``FAMILIES``, as `harness.generate.generate` takes it. All of them are cases of the standard
suite, with the same ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from harness.cases import FAMILIES as ALL
from harness.cases.base import Family, Params

# Larger cases kill nothing that smaller ones do not, and take longer.
_LARGEST = {"N": 65, "B": 8, "budget": 64, "P": 130, "n": 40}
_MOST = {"greedy_step": 10, "verify_attn": 20}  # cases of a family beside those of smoke
_MOST_OF_OTHERS = 30
_SLOW = {("greedy_step", "planted"): 3}  # families whose cases take long to make


def chosen(family: Family, _suite: str) -> Iterator[Params]:
    """Parameter sets of ``family``."""
    seen: set[tuple[str, int | str]] = set()
    most = _SLOW.get((family.kernel, family.name), _MOST.get(family.kernel, _MOST_OF_OTHERS))
    smoke = list(family.plan("smoke"))
    for params in family.plan("standard"):
        new = set(params.items()) - seen
        if params not in smoke:
            if not new or most == 0 or _too_large(params):
                continue
            most -= 1
        seen |= new
        yield params


def _too_large(params: Params) -> bool:
    if params.get("L") == 1:
        return False  # one level is cheap, and large ranks stand nowhere else
    return any(isinstance(params.get(k), int) and int(params[k]) > most for k, most in _LARGEST.items())


FAMILIES: tuple[Family, ...] = tuple(replace(family, plan=partial(chosen, family)) for family in ALL)
