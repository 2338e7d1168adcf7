"""Catalogues that fail, for tests of the generator."""

from __future__ import annotations

from collections.abc import Iterator

from small_families import FAMILIES as GOOD

from harness.cases.base import Draft, Family, Params
from harness.draw import Draw


def _plan(suite: str) -> Iterator[Params]:
    yield {"N": 5}


def _raise(params: Params, draw: Draw) -> Draft:
    raise ZeroDivisionError("no such tree")


FAMILIES = (*GOOD, Family("raises", "kv_commit", "raises", _plan, _raise))
