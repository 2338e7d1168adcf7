"""What must not matter is hostile, and a target that looks at it is found out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from made import attention_case, small_cases, tree_case

from harness import verify
from harness.case import materialize
from harness.judge.picture import tree_picture
from harness.memory import hostile
from harness.memory.host import HostMemory
from harness.results import Mismatch, Outcome
from harness.targets.pool import Pool


def test_dead_rows_are_those_that_nobody_sees() -> None:
    case = attention_case()
    # Request 0: pages 0, 2, 4, prefix 2, sees its slots 0..4. Request 1: pages 5, 3, 1, sees 0 and 1.
    assert hostile.dead_attention_rows(case.inputs).tolist() == [2, 3, 6, 7, 9]


def test_dead_rows_by_hand_on_real_cases() -> None:
    for case in (c for c in small_cases() if c.kernel == "verify_attn"):
        inputs = {name: materialize(value) for name, value in case.inputs.items()}
        pages, page_slots, _ = inputs["kv"].shape
        seen = set()
        for b, count in enumerate(inputs["node_count"].tolist()):
            prefix = int(inputs["prefix_len"][b])
            slots = set(range(prefix)) if count else set()
            for i in range(count):
                slots |= {
                    prefix + j for j in range(count) if inputs["tree_mask"][b, i, j // 32] >> (j % 32) & 1
                }
            seen |= {
                int(inputs["block_table"][b, s // page_slots]) * page_slots + s % page_slots for s in slots
            }
        dead = hostile.dead_attention_rows(inputs).tolist()
        assert sorted(set(dead) | seen) == list(range(pages * page_slots))
        assert not set(dead) & seen


def test_patterns_are_nan_then_finite() -> None:
    nan, huge = ((hostile.pattern(index, 5).astype(np.uint32) << 16).view(np.float32) for index in (0, 1))
    assert np.isnan(nan).all()
    assert np.isfinite(huge).all()
    assert (np.abs(huge) > 1e38).all()


def test_a_kernel_that_multiplies_unseen_rows_by_zero(small_set: Path, faulty) -> None:
    results = verify(small_set, str(faulty("READS_ALL")), kernels=("verify_attn",), jobs=1)
    bad = [c for c in results.cases if c.outcome is Outcome.WRONG_VALUES]
    assert len(bad) >= results.planned - 1  # a pool without an unseen row cannot show it
    assert all("got nan" in c.message or "is nan" in c.message for c in bad)


def test_a_kernel_that_lets_dead_queries_in(small_set: Path, faulty) -> None:
    results = verify(small_set, str(faulty("READS_DEAD_Q")), kernels=("verify_attn",), jobs=1)
    bad = [c.outcome for c in results.cases if c.outcome is not Outcome.PASS]
    assert bad
    assert set(bad) == {Outcome.WRONG_VALUES}


def test_a_commit_that_touches_a_committed_row(small_set: Path, faulty) -> None:
    library = str(faulty("TOUCHES_POOL"))
    results = verify(small_set, library, kernels=("kv_commit", "greedy_step"), jobs=1)
    bad = [c for c in results.cases if c.outcome is Outcome.WRONG_VALUES]
    assert {c.kernel for c in bad} == {"kv_commit", "greedy_step"}
    # In a later step the attention sees the touched row first.
    words = ("kv[", "lse[", "out[")
    assert all(c.message.startswith(words[:1] if c.kernel == "kv_commit" else words) for c in bad)


def test_a_pool_gives_hostile_rows_their_own_bytes_back_unless_they_changed() -> None:
    case = next(c for c in small_cases() if c.kernel == "greedy_step")
    inputs = {name: materialize(value) for name, value in case.inputs.items()}
    layers, pages, page_slots, width = inputs["kv"].shape
    nodes = int(case.scalars["budget"]) + 1
    dims = {"Y": layers, "G": pages, "S": page_slots, "R": width, "N": nodes, "M": 1}
    for index in (0, 1):
        pool = Pool(HostMemory(), inputs, dims, 0, index)
        pool.arena.fetch()
        dead = hostile.dead_step_rows(inputs, nodes, 0)
        assert dead[0].size
        raw = pool.arena.read("kv[0]", np.uint16, (-1, width))
        assert (raw[dead[0]] == hostile.pattern(index, width)).all()
        assert pool.contents().tobytes() == inputs["kv"].tobytes()
        row = int(dead[0][0])
        for written in (inputs["kv"].reshape(layers, -1, width)[0, row], np.zeros(width, np.uint16)):
            pool.arena.poke([("kv[0]", row * width * 2, written)])
            pool.arena.fetch()
            assert pool.contents().tobytes() != inputs["kv"].tobytes()


def test_pictures_of_failed_trees() -> None:
    case = tree_case(5)
    outputs = {name: materialize(value).copy() for name, value in case.expected.items()}
    outputs["node_parent"][1, 4] = 0
    picture = tree_picture(case, Mismatch("node_parent", (1, 4), "", "", 1, 12), outputs)
    assert picture is not None
    assert picture.request == 1
    assert picture.parent == tuple(case.expected["node_parent"][1])
    assert picture.actual_path == (0, 4)
    assert picture.expected_path[-1] == 4


def test_pictures_of_accepted_paths_and_of_rings() -> None:
    for case in small_cases():
        if case.kernel not in ("tree_accept", "greedy_step"):
            continue
        outputs = {name: materialize(value).copy() for name, value in case.expected.items()}
        place = (0,) if case.kernel == "tree_accept" else (0, 0)
        picture = tree_picture(case, Mismatch("accept_index", (*place, 0), "", "", 1, 1), outputs)
        assert picture is not None
        assert picture.expected_path == picture.actual_path
        assert picture.expected_path[:1] == (0,)
        assert len(picture.parent) == len(picture.token)
        if case.kernel == "tree_accept":
            ring = {**case.inputs, "next_sibling": np.zeros_like(case.inputs["next_sibling"]) + 1}
            broken = type(case)(**{**vars(case), "inputs": ring})
            tree_picture(broken, Mismatch("accept_index", (0, 0), "", "", 1, 1), outputs)


def test_no_picture_for_what_has_no_tree() -> None:
    case = attention_case()
    assert tree_picture(case, Mismatch("out", (0, 0, 0, 0), "", "", 1, 1), {}) is None
