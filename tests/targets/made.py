"""Cases made by hand, so that the tests of targets do not hang on what the families plan."""

from __future__ import annotations

from itertools import islice

import numpy as np
from bad_targets import HIT

from harness.case import Case
from harness.cases import FAMILIES
from harness.cases.base import make_case
from harness.expect import expected_outputs

BUDGETS = (3, 5, HIT, 9, 12)


def case_of(kernel, inputs, scalars, name="made", policy="exact", validity="valid") -> Case:
    expected = expected_outputs(kernel, inputs, scalars)
    return Case(f"{kernel}/{name}", kernel, "made", (), policy, validity, 0, inputs, scalars, expected)


def tree_inputs(batch=2, depth=3, candidates=4, seed=1):
    rng = np.random.Generator(np.random.Philox(seed))
    steps = np.sort(rng.integers(-(2**20), 0, (batch, depth, candidates)), axis=-1)[..., ::-1]
    return {
        "topk_logprob": (steps / 2**18).astype(np.float32),
        "topk_token": rng.integers(0, 50_000, (batch, depth, candidates)).astype(np.int32),
        "root_token": np.arange(5, 5 + batch, dtype=np.int32),
        "prefix_len": np.arange(batch, dtype=np.int32) * 3,
    }


def tree_case(budget: int) -> Case:
    return case_of("tree_build", tree_inputs(seed=budget), {"budget": budget}, f"made/budget{budget}")


def attention_case(name="made/attention") -> Case:
    """Two requests of three live nodes in four slots; the second has no prefix; one row sees nothing."""
    rng = np.random.Generator(np.random.Philox(3))

    def bf16(shape):
        return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    inputs = {
        "q": bf16((2, 4, 2, 8)),
        "kv": bf16((6, 2, 24)),
        "block_table": np.array([[0, 2, 4], [5, 3, 1]], np.int32),
        "prefix_len": np.array([2, 0], np.int32),
        "node_count": np.array([3, 3], np.int32),
        "tree_mask": np.array([[[1], [3], [5], [0]], [[1], [3], [0], [0]]], np.uint32),
    }
    return case_of("verify_attn", inputs, {"Hkv": 1, "Dv": 16, "scale": 0.5}, name, "attention")


def small_cases() -> list[Case]:
    """Five trees by hand, and a few smoke cases of the other kernels."""
    wanted = {"verify_attn": 4, "tree_accept": 4, "kv_commit": 4, "greedy_step": 3}
    cases = [tree_case(budget) for budget in BUDGETS]
    for kernel, count in wanted.items():
        families = [f for f in FAMILIES if f.kernel == kernel]
        plans = [(f, p) for f in families for p in islice(f.plan("smoke"), -(-count // len(families)))]
        cases += [make_case(f, p, 0) for f, p in plans[:count]]
    return cases
