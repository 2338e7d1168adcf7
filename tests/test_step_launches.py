"""greedy_step accepts and commits in one launch where a step is small, in two otherwise: same results."""

from __future__ import annotations

import pytest

from harness.case import materialize
from harness.cases.base import make_case
from harness.cases.greedy_step.synthesized import SYNTHESIZED
from harness.judge import judge
from harness.observation import Job, Observation
from harness.results import Outcome
from harness.targets import Options, open_target

# Blocks (request, layer) up to 256 and trees up to 512 nodes take one launch.
SIZES = [
    *((2, 9, layers, scenario) for layers in (128, 129) for scenario in ("plain", "stop", "inactive")),
    *((1, nodes, 1, "plain") for nodes in (512, 513)),
    (3, 33, 2, "limit"),
]


@pytest.mark.parametrize(("batch", "nodes", "layers", "scenario"), SIZES)
@pytest.mark.parametrize("order", ["forward", "random:7"])
def test_both_ways(batch: int, nodes: int, layers: int, scenario: str, order: str) -> None:
    params = {"scenario": scenario, "layout": "gqa2x1", "U": 1, "B": batch, "N": nodes, "Y": layers, "S": 4}
    case = make_case(SYNTHESIZED, params, 11)
    target = open_target("cpu", Options(order=order))
    inputs = {name: materialize(value) for name, value in case.inputs.items()}
    done = target.run_round(Job(case.kernel, inputs, case.scalars), 0)
    seen = Observation("done", rounds=(done.outputs,), guard_hits=done.guard_hits, mutated=done.mutated)
    verdict = judge(case, seen)
    assert verdict.outcome == Outcome.PASS, verdict.message
