"""What a case family is, and how its drafts become cases.

A family plans parameter sets per suite and makes a draft (inputs, scalars, flags) from one set and a
stream of draws. Everything else is the same for every family and happens here: the seed, the case id, the
expected outputs by the references.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.case import Case, Expected, Policy, Validity, Value
from harness.draw import Draw, case_seed
from harness.errors import HarnessError
from harness.expect import expected_outputs
from harness.stacked import STACKED, outputs_of_all

Params = Mapping[str, int | str]
SUITES = ("smoke", "standard", "full")

_POLICIES: dict[str, Policy] = {"verify_attn": "attention", "greedy_step": "attention"}


@dataclass(frozen=True)
class Draft:
    """What a family makes: the inputs of a case, before anything is expected of it.

    ``rows``, rising places in [B*N*Hq], are the rows whose expected attention is stored; None: all of them.
    """

    inputs: Mapping[str, Value]
    scalars: Mapping[str, int | float]
    flags: tuple[str, ...]
    validity: Validity = "valid"
    notes: Mapping[str, float] = field(default_factory=dict)
    rows: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Family:
    """One family: ``plan(suite)`` yields parameter sets, ``make(params, draw)`` a draft.

    ``make`` returns None where the drawn seed cannot serve; the next attempt gets another seed. ``partners``
    names the parameter in which related cases differ: such cases get the same draws.
    """

    name: str
    kernel: str
    doc: str
    plan: Callable[[str], Iterable[Params]]
    make: Callable[[Params, Draw], Draft | None]
    partners: str = ""


def slug(params: Params) -> str:
    """``{"L": 15, "kind": "ties"}`` -> ``L15-kind_ties``: stable, readable, safe in a file name."""
    return "-".join(f"{k}{v}" if isinstance(v, int) else f"{k}_{v}" for k, v in params.items())


class _Drafted(NamedTuple):
    text: str  # the slug of the parameters
    seed: int
    draft: Draft


def make_case(family: Family, params: Params, root_seed: int) -> Case:
    """The case of one parameter set: `make_cases` of one."""
    return next(make_cases(family, [params], root_seed))


def make_cases(family: Family, many: Iterable[Params], root_seed: int) -> Iterator[Case]:
    """The cases of parameter sets, in order. HarnessError names the one that cannot be made.

    The id is ``kernel/family/params-xxxxxxxx`` with eight hex digits over root seed, names and params: it
    never depends on the position in a list. Memory holds one case, or, where references take several at a
    time, all of them.
    """
    drafted = (_drafted(family, params, root_seed) for params in many)
    for some in [list(drafted)] if family.kernel in STACKED else ([one] for one in drafted):
        for one, expected in zip(some, _expected(family, some), strict=True):
            yield _case(family, one, root_seed, expected)


def _drafted(family: Family, params: Params, root_seed: int) -> _Drafted:
    text = slug(params)
    drawn = slug({k: v for k, v in params.items() if k != family.partners}) if family.partners else text
    with _blamed_on(family, text):
        for attempt in range(64):
            seed = case_seed(root_seed, family.kernel, family.name, f"{drawn}#{attempt}")
            draft = family.make(params, Draw(seed))
            if draft is not None:
                return _Drafted(text, seed, draft)
        raise ValueError("rejects every seed")


def _expected(family: Family, some: Sequence[_Drafted]) -> Iterable[Mapping[str, Expected]]:
    if family.kernel in STACKED:
        with suppress(Exception):  # then one by one, to name the case that the reference refuses
            return outputs_of_all(family.kernel, [(one.draft.inputs, one.draft.scalars) for one in some])
    expected = []
    for text, _, draft in some:
        with _blamed_on(family, text):
            expected.append(expected_outputs(family.kernel, draft.inputs, draft.scalars, draft.rows))
    return expected


@contextmanager
def _blamed_on(family: Family, text: str) -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise HarnessError(
            f"{family.kernel}/{family.name} {text}: {type(error).__name__}: {error}"
        ) from error


def _case(family: Family, one: _Drafted, root_seed: int, expected: Mapping[str, Expected]) -> Case:
    name, draft = f"{family.kernel}/{family.name}/{one.text}", one.draft
    tag = hashlib.sha256(f"{root_seed}/{name}".encode()).hexdigest()[:8]
    return Case(
        case_id=f"{name}-{tag}",
        kernel=family.kernel,
        family=family.name,
        flags=tuple(sorted(draft.flags)),
        policy=_POLICIES.get(family.kernel, "exact"),
        validity=draft.validity,
        seed=one.seed,
        inputs=draft.inputs,
        scalars=draft.scalars,
        expected=expected,
        notes=draft.notes,
    )
