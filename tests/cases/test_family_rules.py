"""Rules that hold for every family: ids, seeds, suites, flags, counts."""

from __future__ import annotations

import re

import numpy as np
import pytest
from built import KERNELS, SEED, cases, families

from harness.case import Case, materialize
from harness.cases.base import SUITES, make_case
from harness.cases.blocks.paging import pages
from harness.draw import Draw
from harness.flags import FLAGS
from harness.flags.step import STEP_FLAGS

STANDARD = {
    "tree_build": (900, 1050),
    "tree_accept": (290, 360),
    "kv_commit": (180, 240),
    "greedy_step": (140, 210),
}
SMOKE = {"tree_build": (30, 42), "tree_accept": (24, 34), "kv_commit": (9, 14), "greedy_step": (8, 18)}


def same(a: Case, b: Case) -> bool:
    return all(
        materialize(x[name]).tobytes() == materialize(y[name]).tobytes()
        for x, y in ((a.inputs, b.inputs), (a.expected, b.expected))
        for name in x
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_counts_stay_in_the_budget(kernel: str) -> None:
    for suite, (low, high) in (("standard", STANDARD[kernel]), ("smoke", SMOKE[kernel])):
        assert low <= sum(len(list(f.plan(suite))) for f in families(kernel)) <= high


@pytest.mark.parametrize("kernel", KERNELS)
def test_suites_are_nested_and_ids_unique(kernel: str) -> None:
    for family in families(kernel):
        smoke, standard, full = ([dict(p) for p in family.plan(suite)] for suite in SUITES)
        assert all(p in standard for p in smoke) and all(p in full for p in standard)
    ids = [case.case_id for case in cases(kernel)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z_]+/[a-z0-9_]+/[A-Za-z0-9_-]+-[0-9a-f]{8}", case_id) for case_id in ids)


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_seed_gives_the_same_bits_and_another_seed_others(kernel: str) -> None:
    for family in families(kernel):
        for params in list(family.plan("standard"))[::40]:
            case = make_case(family, params, SEED)
            assert same(case, make_case(family, params, SEED)), case.case_id
            other = make_case(family, params, SEED + 1)
            assert other.case_id != case.case_id and not same(case, other), case.case_id


@pytest.mark.parametrize("kernel", KERNELS)
def test_flags_are_defined(kernel: str) -> None:
    for case in cases(kernel):
        assert case.flags and set(case.flags) <= set(FLAGS), case.case_id
        assert len(set(case.flags)) == len(case.flags)


def test_every_flag_is_used_and_defined_once() -> None:
    used = {flag for kernel in KERNELS for case in cases(kernel) for flag in case.flags}
    assert set(STEP_FLAGS) - used == set()
    assert all(FLAGS[name] is flag for name, flag in STEP_FLAGS.items())


def test_flags_are_written_in_plain_words() -> None:
    for name, flag in FLAGS.items():
        assert re.fullmatch(r"[a-z0-9_]+", name)
        assert 8 <= len(flag.probes) <= 110 and 8 <= len(flag.effect) <= 110
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", link) for link in flag.links)


def test_smoke_cases_are_small() -> None:
    for kernel in KERNELS:
        sizes = [
            sum(
                np.asarray(v).nbytes
                for v in (*case.inputs.values(), *case.expected.values())
                if isinstance(v, np.ndarray)
            )
            for case in cases(kernel, "", "smoke")
        ]
        assert sum(sizes) < 600_000 and max(sizes) < 110_000


def test_page_tables() -> None:
    for seed in range(20):
        draw = Draw(seed)
        prefix, tail = draw.below(40, 4).tolist(), [9, 0, 9, 1]
        table, count = pages(draw, prefix, tail, 7, shared=seed % 3)
        mapped = [-(-(p + t) // 7) if t else 0 for p, t in zip(prefix, tail, strict=True)]
        common = [min(seed % 3, p // 7) if t else 0 for p, t in zip(prefix, tail, strict=True)]
        own = [set(table[b, c:m].tolist()) for b, (c, m) in enumerate(zip(common, mapped, strict=True))]
        assert all(0 <= page < count for pages_ in own for page in pages_)
        assert (
            len(set.union(*own))
            == sum(len(o) for o in own)
            == sum(m - c for c, m in zip(common, mapped, strict=True))
        )
        assert len({tuple(table[b, :1]) for b, c in enumerate(common) if c}) <= 1
