"""Every output of the emulated kernels is the same, bit for bit, whatever order their threads run in."""

from pathlib import Path

import pytest

from harness.case import materialize
from harness.generate import generate
from harness.observation import Job
from harness.store import open_set
from harness.targets import Options, open_target

ROOT = Path(__file__).resolve().parents[1]
ORDERS = ("forward", "reverse", "random:1", "random:2", "random:3")


def outputs_differ(folder: Path) -> list[str]:
    """Cases of a set whose outputs depend on the thread order, by replaying each in every order."""
    targets = {order: open_target("cpu", Options(order=order)) for order in ORDERS}
    wrong, compared = [], 0
    with open_set(folder) as fixtures:
        for case in fixtures.cases():
            job = Job(case.kernel, {k: materialize(v) for k, v in case.inputs.items()}, case.scalars)
            seen = {order: target.run_round(job, 0) for order, target in targets.items()}
            assert all(r.status == "done" for r in seen.values()), case.case_id
            first = seen["forward"].outputs
            compared += len(first)
            for order in ORDERS[1:]:
                other = seen[order].outputs
                if any(first[n].tobytes() != other[n].tobytes() for n in first):
                    wrong.append(f"{case.case_id} under {order}")
    assert compared > 0
    return wrong


def test_smoke() -> None:
    assert outputs_differ(ROOT / "fixtures" / "smoke") == []


@pytest.mark.slow
def test_standard(tmp_path: Path) -> None:
    generate("standard", tmp_path / "standard")
    assert outputs_differ(tmp_path / "standard") == []
