"""kv_commit families: the contract's preconditions hold, and each family has what it claims."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from built import cases, exclusive_slots, expected, inputs, parameter

from harness.case import AnyArray, Case, Recipe
from harness.cases.blocks.paging import rows

Mover = Callable[[AnyArray, AnyArray, AnyArray], None]  # pool [Y,rows,R] in place, target rows, source rows


def moved(case: Case, mover: Mover) -> AnyArray:
    """The pool after another way to move the rows of every request."""
    given = inputs(case)
    pool = given["kv"].copy()
    layers, pages, slots, width = pool.shape
    flat = pool.reshape(layers, pages * slots, width)
    for b, kept in enumerate((given["accept_len"] + 1).tolist()):
        if kept:
            path = given["accept_index"][b, :kept]
            tail = rows(given["block_table"], b, int(given["prefix_len"][b]), int(path[-1]) + 1, slots)
            mover(flat, tail[:kept], tail[path])
    return pool


def gathered(pool: AnyArray, target: AnyArray, source: AnyArray) -> None:
    pool[:, target] = pool[:, source]


def backwards(pool: AnyArray, target: AnyArray, source: AnyArray) -> None:
    for t, s in list(zip(target, source, strict=True))[::-1]:
        pool[:, t] = pool[:, s]


def contiguous(pool: AnyArray, target: AnyArray, source: AnyArray) -> None:
    """Nothing is moved: the path is taken for the first slots."""


def wide(pool: AnyArray, target: AnyArray, source: AnyArray) -> None:
    """Copies rounded up to 16 bytes."""
    size = -(-pool.shape[2] // 16) * 16
    flat = pool.reshape(pool.shape[0], -1)
    for t, s in zip((target * pool.shape[2]).tolist(), (source * pool.shape[2]).tolist(), strict=True):
        room = min(size, flat.shape[1] - max(t, s))
        flat[:, t : t + room] = flat[:, s : s + room].copy()


def test_preconditions() -> None:
    for case in cases("kv_commit"):
        given = inputs(case)
        pages, slots = given["kv"].shape[1:3]
        kept = given["accept_len"] + 1
        assert isinstance(case.inputs["kv"], Recipe) and slots <= 256 and case.validity == "valid"
        reach = [
            0 if k == 0 else int(given["accept_index"][b, k - 1]) + 1 for b, k in enumerate(kept.tolist())
        ]
        exclusive_slots(given["block_table"], given["prefix_len"], reach, slots, pages)
        for b, k in enumerate(kept.tolist()):
            path = given["accept_index"][b]
            assert (path[k:] == -1).all() and (k == 0 or path[0] == 0) and (np.diff(path[:k]) > 0).all()


def test_expected_pool_is_what_a_gather_gives() -> None:
    for case in cases("kv_commit"):
        assert np.array_equal(moved(case, gathered), expected(case)["kv"]), case.case_id


def test_flags_name_the_movers_that_fail() -> None:
    for case in cases("kv_commit"):
        pool = expected(case)["kv"]
        if "overlapping_moves" in case.flags and int(parameter(case, "R") if "-R" in case.case_id else 6) > 2:
            assert not np.array_equal(moved(case, backwards), pool), case.case_id
        if {"off_first_branch", "overlapping_moves", "long_moves"} & set(case.flags):
            assert not np.array_equal(moved(case, contiguous), pool), case.case_id
        if {"nothing_accepted", "identity", "empty"} & set(case.flags):
            assert np.array_equal(inputs(case)["kv"], pool), case.case_id
        if "odd_row_bytes" in case.flags:
            assert not np.array_equal(moved(case, wide), pool), case.case_id


def test_pages_and_neighbours() -> None:
    for case in cases("kv_commit", "paths"):
        given = inputs(case)
        slots, prefix = given["kv"].shape[2], int(given["prefix_len"][0])
        assert ("partial_page" in case.flags) == (prefix % slots > 0)
        if "page_border" in case.flags:
            assert prefix // slots != (prefix + 17) // slots


def test_unmapped_entries_are_hostile() -> None:
    below = above = 0
    for case in cases("kv_commit"):
        table, pool = inputs(case)["block_table"], case.inputs["kv"]
        assert isinstance(pool, Recipe)
        below += bool((table < 0).any())
        above += bool((table >= pool.shape[1]).any())
    assert min(below, above) > len(cases("kv_commit")) // 4


def test_batches_sleep_where_they_say() -> None:
    for case in cases("kv_commit", "batch"):
        asleep = inputs(case)["accept_len"] == -1
        assert asleep.any() == ("inactive" in case.flags) and asleep.all() == ("empty" in case.flags)


def test_sizes() -> None:
    pools = [case.inputs["kv"] for case in cases("kv_commit")]
    shapes = [pool.shape for pool in pools if isinstance(pool, Recipe)]
    assert max(shape[0] for shape in shapes) == 80
    assert {shape[3] for shape in shapes} >= {1, 2, 3, 16, 24, 1152, 8200}
    assert np.median([np.prod(shape) for shape in shapes]) <= 2**16
