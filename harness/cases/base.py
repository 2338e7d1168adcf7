"""What a case family is, and how its drafts become cases.

A family plans parameter sets per suite and makes a draft (inputs, scalars, flags) from one set and a
stream of draws. Everything else is the same for every family and happens here: the seed, the case id, the
expected outputs by the references.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.case import Case, Policy, Validity, Value
from harness.draw import Draw, case_seed
from harness.expect import expected_outputs

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


def make_case(family: Family, params: Params, root_seed: int) -> Case:
    """The case of one parameter set.

    The id is ``kernel/family/params-xxxxxxxx`` with eight hex digits over root seed, names and params: it
    never depends on the position in a list.
    """
    text = slug(params)
    drawn = slug({name: value for name, value in params.items() if name != family.partners})
    for attempt in range(64):
        seed = case_seed(root_seed, family.kernel, family.name, f"{drawn}#{attempt}")
        draft = family.make(params, Draw(seed))
        if draft is not None:
            break
    else:
        raise ValueError(f"family {family.kernel}/{family.name} rejects every seed for {text}")
    tag = hashlib.sha256(f"{root_seed}/{family.kernel}/{family.name}/{text}".encode()).hexdigest()[:8]
    return Case(
        case_id=f"{family.kernel}/{family.name}/{text}-{tag}",
        kernel=family.kernel,
        family=family.name,
        flags=tuple(sorted(draft.flags)),
        policy=_POLICIES.get(family.kernel, "exact"),
        validity=draft.validity,
        seed=seed,
        inputs=draft.inputs,
        scalars=draft.scalars,
        expected=expected_outputs(family.kernel, draft.inputs, draft.scalars, draft.rows),
        notes=draft.notes,
    )
