"""What a case family is, and how its drafts become cases.

A family plans parameter sets per suite and makes a draft (inputs, scalars, flags) from one set and a
stream of draws. Everything else is the same for every family and happens here: the seed, the case id, the
expected outputs by the references.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.case import Case, Expected, Policy, Validity, Value
from harness.draw import Draw, case_seed
from harness.errors import HarnessError
from harness.expect import expected_outputs
from harness.stacked import STACKED, Asked, Asking, run_together

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

    A ``make`` that needs the outputs of a reference is best a generator: it yields `Asked`, is sent the
    outputs, and returns the draft. What many drafts ask is then one call.
    """

    name: str
    kernel: str
    doc: str
    plan: Callable[[str], Iterable[Params]]
    make: Callable[[Params, Draw], Draft | Asking[Draft | None] | None]
    partners: str = ""

    def draft(self, params: Params, draw: Draw) -> Asking[Draft | None]:
        """What ``make`` makes, whether it asks or not."""
        made = self.make(params, draw)
        return made if made is None or isinstance(made, Draft) else (yield from made)


def slug(params: Params) -> str:
    """``{"L": 15, "kind": "ties"}`` -> ``L15-kind_ties``: stable, readable, safe in a file name."""
    return "-".join(f"{k}{v}" if isinstance(v, int) else f"{k}_{v}" for k, v in params.items())


def make_case(family: Family, params: Params, root_seed: int) -> Case:
    """The case of one parameter set: `make_cases` of one."""
    return next(make_cases(family, [params], root_seed))


def make_cases(family: Family, many: Iterable[Params], root_seed: int) -> Iterator[Case]:
    """The cases of parameter sets, in order. HarnessError names the one that cannot be made.

    The id is ``kernel/family/params-xxxxxxxx`` with eight hex digits over root seed, names and params: it
    never depends on the position in a list. Memory holds one case, or, where references take several at a
    time, all of them.
    """
    making = (_making(family, params, root_seed) for params in many)
    for some in [list(making)] if family.kernel in STACKED else ([one] for one in making):
        yield from run_together(some)


def _making(family: Family, params: Params, root_seed: int) -> Asking[Case]:
    text = slug(params)
    with _blamed_on(family, text):
        seed, draft = yield from _drafted(family, params, text, root_seed)
        expected: Mapping[str, Expected]
        if family.kernel in STACKED:
            expected = yield Asked(family.kernel, draft.inputs, draft.scalars)
        else:
            expected = expected_outputs(family.kernel, draft.inputs, draft.scalars, draft.rows)
    name = f"{family.kernel}/{family.name}/{text}"
    tag = hashlib.sha256(f"{root_seed}/{name}".encode()).hexdigest()[:8]
    return Case(
        case_id=f"{name}-{tag}",
        kernel=family.kernel,
        family=family.name,
        flags=tuple(sorted(draft.flags)),
        policy=_POLICIES.get(family.kernel, "exact"),
        validity=draft.validity,
        seed=seed,
        inputs=draft.inputs,
        scalars=draft.scalars,
        expected=expected,
        notes=draft.notes,
    )


def _drafted(family: Family, params: Params, text: str, root_seed: int) -> Asking[tuple[int, Draft]]:
    """The seed of the first draft that is no refusal, and that draft."""
    drawn = slug({k: v for k, v in params.items() if k != family.partners}) if family.partners else text
    for attempt in range(64):
        seed = case_seed(root_seed, family.kernel, family.name, f"{drawn}#{attempt}")
        draft = yield from family.draft(params, Draw(seed))
        if draft is not None:
            return seed, draft
    raise ValueError("rejects every seed")


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
