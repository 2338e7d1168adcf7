"""Cases that go through a reference together have the outputs that each has alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from built import SEED, families

import references
from harness.case import AnyArray, Case, Value, known
from harness.cases.base import Draft, Family, Params, make_case, make_cases
from harness.cases.blocks.topk import build_inputs, grid_rows
from harness.cases.blocks.walks import accept_inputs, walk
from harness.draw import Draw
from harness.errors import HarnessError
from harness.stacked import STACKED, Asked, Asking, outputs_of_all


def counted(monkeypatch: pytest.MonkeyPatch, kernel: str) -> list[int]:
    """The batch of every call of a reference from now on."""
    calls: list[int] = []
    reference = getattr(references, kernel)

    def count(**arguments: AnyArray) -> dict[str, AnyArray]:
        calls.append(len(arguments["prefix_len" if kernel == "tree_build" else "node_count"]))
        outputs: dict[str, AnyArray] = reference(**arguments)
        return outputs

    monkeypatch.setattr(references, kernel, count)
    return calls


def assert_same_bits(one: Case, other: Case) -> None:
    assert replace(one, inputs={}, expected={}) == replace(other, inputs={}, expected={})
    for mine, its in ((one.inputs, other.inputs), (one.expected, other.expected)):
        assert list(mine) == list(its)
        for name in mine:
            a, b = mine[name], its[name]
            assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), (one.case_id, name)
    assert all(known(value).flags.c_contiguous for value in one.expected.values()), one.case_id


@pytest.mark.parametrize("kernel", STACKED)
def test_together_is_one_by_one(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, kernel)
    total = 0
    for family in families(kernel):
        plan = list(family.plan("standard"))
        together = list(make_cases(family, plan, SEED))
        stacks = len(calls)
        alone = [make_case(family, params, SEED) for params in plan]
        assert len(together) == len(alone) and stacks <= len(alone)
        for one, other in zip(together, alone, strict=True):
            assert_same_bits(one, other)
        total += stacks
        calls.clear()
    assert total < 0.4 * sum(len(list(family.plan("standard"))) for family in families(kernel))


def build(**changes: Value) -> dict[str, Value]:
    draw = Draw(1)
    return {**build_inputs(draw, grid_rows(draw, (2, 3, 4), "even")), **changes}


def accept(stop: tuple[int, ...] = (7,)) -> dict[str, Value]:
    return accept_inputs([walk(Draw(1), np.array([-1, 0, 1]))], 4, stop)


def calls_for(kernel: str, *asked: tuple[Mapping[str, Value], Mapping[str, int | float]]) -> list[int]:
    """The batches in which ``asked`` go through a reference that checks nothing."""
    calls: list[int] = []

    def reference(**arguments: AnyArray) -> dict[str, AnyArray]:
        calls.append(len(arguments["root_token" if kernel == "tree_build" else "node_count"]))
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, kernel, reference)
        assert outputs_of_all([Asked(kernel, *one) for one in asked]) == [{}] * len(asked)
    return calls


def cut(inputs: Mapping[str, Value], *index: slice) -> dict[str, Value]:
    return {n: v[index[: v.ndim]] for n, v in inputs.items() if isinstance(v, np.ndarray)}


DIFFERENT: dict[str, tuple[Mapping[str, Value], Mapping[str, int | float]]] = {
    "budget": (build(), {"budget": 9}),
    "budget of another type": (build(), {"budget": 8.0}),
    "depth": (cut(build(), slice(2), slice(2)), {"budget": 8}),
    "dtype": (build(root_token=np.zeros(2, np.int64)), {"budget": 8}),
    "stop tokens": (accept((7, 8)), {"depth_limit": 3}),
    "a stop token": (accept((8,)), {"depth_limit": 3}),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_goes_apart(what: str) -> None:
    other = DIFFERENT[what]
    if "budget" in other[1]:
        assert calls_for("tree_build", (build(), {"budget": 8}), other, (build(), {"budget": 8})) == [4, 2]
    else:
        one = (accept(), {"depth_limit": 3})
        assert calls_for("tree_accept", one, other, one) == [2, 1]


def test_batches_may_differ() -> None:
    whole, part = build(), cut(build(), slice(1))
    assert calls_for("tree_build", (whole, {"budget": 8}), (part, {"budget": 8})) == [3]


def test_arrays_of_unequal_batch_go_alone() -> None:
    """Two such cases might add up to a whole batch."""
    short, long = build(root_token=np.zeros(1, np.int32)), build(root_token=np.zeros(3, np.int32))
    assert calls_for("tree_build", (short, {"budget": 8}), (long, {"budget": 8})) == [1, 3]


def test_kernels_go_apart() -> None:
    asked = [
        Asked("tree_build", build(), {"budget": 8}),
        Asked("tree_accept", accept(), {"depth_limit": 3}),
        Asked("tree_build", build(), {"budget": 8}),
    ]
    answers = outputs_of_all(asked)
    assert ["accept_len" in outputs for outputs in answers] == [False, True, False]


def asking_family(make: Callable[[Params, Draw], Asking[Draft | None]], count: int) -> Family:
    return Family("asking", "tree_accept", "Asks.", lambda suite: [{"i": i} for i in range(count)], make)


def on_a_tree(params: Params, draw: Draw) -> Asking[Draft | None]:
    """A tree, and for every other case a walk on it, whose first token the target predicts everywhere."""
    rows = build_inputs(draw, grid_rows(draw, (1, 3, 4), "even"))
    tree = yield Asked("tree_build", rows, {"budget": 8})
    if draw.integer(0, 2) == 0:
        return None
    inputs: dict[str, Value] = {name: tree[name] for name in ("node_token", "next_token", "next_sibling")}
    inputs |= {"target_predict": np.roll(tree["node_token"], -1), "node_count": tree["node_count"]}
    inputs |= {"stop_token": np.zeros(0, np.int32), "token_limit": np.array([99], np.int32)}
    if int(params["i"]) % 2:
        walked = yield Asked("tree_accept", inputs, {"depth_limit": 8})
        inputs["target_predict"] = np.full_like(tree["node_token"], walked["out_token"][0, 0])
    return Draft(inputs, {"depth_limit": 3}, ("walk",))


def test_what_drafts_ask_goes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    built, walked = counted(monkeypatch, "tree_build"), counted(monkeypatch, "tree_accept")
    family = asking_family(on_a_tree, 12)
    plan = list(family.plan("smoke"))
    together = list(make_cases(family, plan, SEED))
    assert built[0] == 12 < sum(built)  # all at once, then again where the seed was refused
    assert len(built) <= 5
    assert sum(walked) == 18 and len(walked) < 12
    for one, params in zip(together, plan, strict=True):
        assert_same_bits(one, make_case(family, params, SEED))


@pytest.mark.parametrize("bad", ["a", "b"])
def test_the_draft_whose_question_is_refused_is_named(bad: str) -> None:
    """Whether its first question is refused or its second."""

    def make(params: Params, draw: Draw) -> Asking[Draft | None]:
        for question in ("a", "b"):
            refused = params["i"] == 2 and question == bad
            yield Asked("tree_build", build(), {"budget": -1 if refused else 8})
        return Draft(accept(), {"depth_limit": 3}, ("walk",))

    family = asking_family(make, 4)
    with pytest.raises(HarnessError, match=r"^tree_accept/asking i2: ValueError: budget: got -1"):
        list(make_cases(family, list(family.plan("smoke")), 0))


def test_a_draft_may_take_a_refusal() -> None:
    def make(params: Params, draw: Draw) -> Asking[Draft | None]:
        budget = 8 - 9 * int(params["i"])
        with suppress(ValueError):
            yield Asked("tree_build", build(), {"budget": budget})
        return Draft(accept(), {"depth_limit": 3}, ("walk",))

    family = asking_family(make, 2)
    assert len(list(make_cases(family, list(family.plan("smoke")), 0))) == 2


def test_the_case_that_a_reference_refuses_is_named() -> None:
    def make(params: Params, draw: Draw) -> Draft:
        inputs = accept()
        if params["i"] == 2:
            inputs["token_limit"] = np.array([-1], np.int32)
        return Draft(inputs, {"depth_limit": 3}, ("walk",))

    family = Family(
        "limits", "tree_accept", "One is negative.", lambda suite: [{"i": i} for i in range(4)], make
    )
    with pytest.raises(HarnessError, match=r"^tree_accept/limits i2: ValueError: token_limit\[0\]: got -1"):
        list(make_cases(family, list(family.plan("smoke")), 0))
