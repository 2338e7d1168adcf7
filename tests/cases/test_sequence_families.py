"""Sequences of steps: what follows what, and that a step like an earlier one gives the same answer."""

from __future__ import annotations

import numpy as np
from built import cases, expected, inputs, parameter

import references
from harness.case import AnyArray, Case

GIVEN_ONCE = ("stop_token", "block_table", "kv")


def sequences(scenario: str) -> list[Case]:
    return [c for c in cases("greedy_step", "sequences") if parameter(c, "scenario") == scenario]


def fresh(case: Case, step: int, pool: AnyArray) -> dict[str, AnyArray]:
    """One step alone, on ``pool``."""
    given = {n: v if n in GIVEN_ONCE else v[step : step + 1] for n, v in inputs(case).items()}
    return references.greedy_step(**{**given, "kv": pool}, **case.scalars)


def test_accepts_follow_the_plan() -> None:
    for case in sequences("accepts"):
        accepted = expected(case)["accept_len"]
        assert accepted[:, 0].tolist() == [3, 0, 1, 2, 0, 3]
        assert accepted[:, 1].tolist() == [0, 1, 2, 0, 3, 3]


def test_the_live_batch_shrinks_and_grows() -> None:
    for case in sequences("live"):
        live = (inputs(case)["root_token"] != -1).sum(axis=1)
        assert live.tolist() == [4, 1, 3, 0, 4, 2]
        assert ((expected(case)["node_count"] > 0).sum(axis=1) == live).all()


def test_trees_chains_and_the_same_trees_again() -> None:
    for case in sequences("again"):
        given, right = inputs(case), expected(case)
        for name in given:
            if name not in GIVEN_ONCE:
                assert given[name][0].tobytes() == given[name][2].tobytes() == given[name][4].tobytes()
        for name in right:
            if name != "kv":
                assert right[name][0].tobytes() == right[name][2].tobytes() == right[name][4].tobytes()
                assert right[name][1].tobytes() == right[name][3].tobytes()
        for step in (0, 1):  # as in fresh runs
            alone = fresh(case, step, given["kv"])
            for name in ("node_token", "tree_mask", "visible", "accept_index", "out_token", "new_len"):
                assert (alone[name][0] == right[name][step]).all()
            assert np.array_equal(alone["out"][0].astype(np.float32), right["out"][step])
        parents = right["node_parent"][1]
        live = np.arange(parents.shape[1]) < right["node_count"][1][:, None]
        assert (parents == np.arange(parents.shape[1]) - 1)[live].all()
        assert (right["node_parent"][0] != np.arange(parents.shape[1]) - 1).any()


def test_one_array_changes_from_step_to_step_and_it_shows() -> None:
    seen = set()
    for case in [*sequences("values"), *sequences("model")]:
        given, right = inputs(case), expected(case)
        for u in range(1, len(given["root_token"])):
            changed = {
                n for n in given if n not in GIVEN_ONCE and given[n][u].tobytes() != given[n][u - 1].tobytes()
            }
            assert len(changed) == 1
            seen |= changed
            assert any(right[n][u].tobytes() != right[n][u - 1].tobytes() for n in right if n != "kv")
    assert seen == {
        "topk_logprob", "topk_token", "prefix_len", "root_token", "token_limit",
        "q", "tail", "target_predict",
    }  # fmt: skip


def test_no_step_reads_what_an_ended_request_left_as_nan() -> None:
    for case in cases("greedy_step", "sequences"):
        assert np.isfinite(expected(case)["out"]).all(), case.case_id
