"""What the second run adds: a call before it, a kept workspace, inputs that come late, pages far apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made import attention_case, case_of, small_cases, tree_case

from harness import verify
from harness.case import Case, materialize
from harness.cases import FAMILIES
from harness.cases.base import make_case
from harness.contract import KERNELS
from harness.errors import UsageProblem
from harness.judge import judge
from harness.memory.buffers import GUARD, Delays
from harness.memory.cuda_memory import DeviceMemory
from harness.memory.host import HostMemory
from harness.memory.spread import SpreadPages
from harness.observation import Job, Round
from harness.replay import replay
from harness.results import Outcome, Results, TargetInfo
from harness.shapes import PAGE_STRIDE, bind
from harness.store import write_set
from harness.store.manifest import SetInfo
from harness.targets import open_target
from harness.targets.base import Identity
from harness.targets.decoy import decoy
from harness.targets.engine import NEVER_LATE, PAUSES, Engine


def family_cases(kernel: str, name: str, suite: str = "smoke") -> list[Case]:
    (family,) = [f for f in FAMILIES if (f.kernel, f.name) == (kernel, name)]
    return [make_case(family, params, 0) for params in family.plan(suite)]


def verified(cases: list[Case], library: Path, folder: Path) -> Results:
    write_set(cases, folder / "set", SetInfo.here("smoke", 0))
    return verify(folder / "set", str(library), jobs=1)


def outcomes(results: Results) -> dict[str, Outcome]:
    return {case.case_id: case.outcome for case in results.cases}


@pytest.mark.parametrize("kernel", ["tree_build", "verify_attn", "tree_accept", "kv_commit"])
def test_decoys_are_other_inputs_of_the_same_shapes(kernel: str) -> None:
    cases = [c for c in [*small_cases(), attention_case(), tree_case(3)] if c.kernel == kernel]
    cases += [c for f in ("shapes", "lengths", "paths") for c in _if_any(kernel, f)]
    assert {len(materialize(c.inputs["prefix_len"])) for c in cases if "prefix_len" in c.inputs} >= {
        1,
        2,
    } or (kernel == "tree_accept")
    for case in cases:
        inputs = {name: materialize(value) for name, value in case.inputs.items()}
        other = decoy(KERNELS[kernel], inputs)
        assert {n: (v.dtype, v.shape) for n, v in other.items()} == {
            n: (v.dtype, v.shape) for n, v in inputs.items()
        }
        changed = {n for n in inputs if other[n].tobytes() != inputs[n].tobytes()}
        assert "kv" not in changed
        assert changed or "root_only" in case.flags or "nothing_accepted" in case.flags, case.case_id


def _if_any(kernel: str, name: str) -> list[Case]:
    return family_cases(kernel, name) if any((f.kernel, f.name) == (kernel, name) for f in FAMILIES) else []


def test_a_kernel_that_keeps_what_it_saw_first(faulty, tmp_path: Path) -> None:
    cases = family_cases("kv_commit", "batch", "standard")[:4]
    results = verified(cases, faulty("KEEPS_FIRST"), tmp_path)
    bad = [c for c in results.cases if c.outcome is Outcome.WRONG_VALUES]
    assert bad
    assert all(c.message.endswith("in run 2 only") for c in bad)


def test_a_kernel_that_trusts_its_old_workspace(faulty, tmp_path: Path) -> None:
    """Only where fewer requests are live in the call before: the last one of this call is left out."""
    cases = family_cases("tree_accept", "inactive", "standard")
    results = verified(cases, faulty("STALE_SPACE"), tmp_path)
    bad = [c for c in results.cases if c.outcome is not Outcome.PASS]
    assert bad
    assert {c.outcome for c in bad} <= {Outcome.WRONG_VALUES, Outcome.UNWRITTEN}


def test_a_step_that_trusts_its_old_workspace(faulty) -> None:
    """The second run of a greedy_step keeps the workspace from step to step; the batch grows again."""
    (case,) = [c for c in family_cases("greedy_step", "sequences") if "scenario_live" in c.case_id]
    seen = replay(open_target(str(faulty("STALE_SPACE"))), Job(case.kernel, case.inputs, case.scalars))
    verdict = judge(case, seen)
    assert verdict.outcome is Outcome.WRONG_VALUES
    assert verdict.mismatch is not None
    assert verdict.mismatch.index[:2] == (2, 2)  # after a step with request 1 alone, request 2 is left out
    assert verdict.message.endswith("in run 2 only")


def test_offsets_of_32_bits(faulty, tmp_path: Path) -> None:
    far = family_cases("kv_commit", "far_pages")
    near = family_cases("kv_commit", "paths")
    results = outcomes(verified([*far, *near], faulty("SHORT_OFFSET"), tmp_path))
    assert {results[c.case_id] for c in near} == {Outcome.PASS}
    assert all(results[c.case_id] is not Outcome.PASS for c in far)


@pytest.mark.parametrize("busy", [0, *(pause + 1 for pause in PAUSES[:-1])])
def test_a_kernel_on_another_stream_meets_the_old_inputs(
    faulty, fake_cuda: Path, monkeypatch: pytest.MonkeyPatch, small_set: Path, busy: int
) -> None:
    """Also where the device serves others for longer than the first pauses last."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_cuda))
    monkeypatch.setenv("FAKE_CUDA_BUSY", str(busy))
    results = verify(small_set, str(faulty("OTHER_STREAM", "-DDEVICE")))
    late = [c for c in results.cases if c.outcome in (Outcome.UNWRITTEN, Outcome.WRONG_VALUES)]
    assert len(late) == results.planned
    assert {c.kernel for c in late} == set(KERNELS)


class EarlyInputs:
    """A space whose inputs come too early ``times`` times."""

    def __init__(self, times: int) -> None:
        self.times, self.pauses = times, list[int]()

    def delay(self, microseconds: int) -> None:
        self.pauses.append(microseconds)

    def upload_late(self, address: int, data: object) -> None:
        raise AssertionError

    @property
    def missed(self) -> bool:
        return len(self.pauses) <= self.times


@pytest.mark.parametrize("early", [0, 1, 2, 3])
def test_tries_whose_inputs_came_early_are_kept(early: int) -> None:
    """Their passes prove nothing, their faults do."""
    engine = Engine.__new__(Engine)
    engine.delays = EarlyInputs(early)
    tries = iter(Round("done", guard_hits=(str(i),)) for i in range(len(PAUSES)))
    seen = engine.with_late_inputs(lambda: next(tries))
    made = min(early + 1, len(PAUSES))
    assert engine.delays.pauses == list(PAUSES[:made])
    assert [one.guard_hits[0] for one in (*seen.before, seen)] == [str(i) for i in range(made)]
    assert seen.notes == ((NEVER_LATE,) if early == len(PAUSES) else ())


def test_a_try_that_fails_is_the_last() -> None:
    engine = Engine.__new__(Engine)
    engine.delays = EarlyInputs(3)
    tries = iter([Round("done"), Round("failed", "a fault"), Round("done")])
    seen = engine.with_late_inputs(lambda: next(tries))
    assert (seen.status, seen.message, len(seen.before)) == ("failed", "a fault", 1)


def test_what_an_earlier_try_shows_is_observed() -> None:
    right, wrong = ({"new_len": np.array([n], np.int32)} for n in (1, 2))

    class Tried:
        identity = Identity(TargetInfo("tried", "python", "", "device", "event", ()))
        poisons = False

        def refusal(self, job: Job) -> None:
            return None

        def run_round(self, job: Job, round_index: int) -> Round:
            before = (Round("done", outputs=wrong, guard_hits=("a hit",), mutated=("an input",)),)
            return Round("done", outputs=right, before=before if round_index else ())

    seen = replay(Tried(), Job("kv_commit", {}, {}))
    assert [list(r) for r in seen.rounds] == [["new_len"], [], ["new_len"]]
    assert (seen.guard_hits, seen.mutated) == (("a hit",), ("an input",))


def test_inputs_of_a_try_that_was_given_up_are_not_awaited() -> None:
    """Between them and their call something was refused; the next call has no late inputs of its own."""

    class Past:
        def __getattr__(self, name: str) -> Callable[..., bool]:
            return lambda *arguments: name == "happened"

    memory = DeviceMemory.__new__(DeviceMemory)
    memory._driver, memory._stream, memory._arrival, memory._events = Past(), 1, 2, (3, 4)
    memory._pinned = SimpleNamespace(nbytes=8, address=0, fill=lambda data: None)
    for given_up in (False, True):
        memory.delay(300)
        memory.upload_late(0, np.zeros(8, np.uint8))
        if given_up:
            memory.delay(300)
        memory.timed(lambda: 0)
        assert memory.missed is not given_up


def test_inputs_that_never_come_late_are_noted(
    faulty, fake_cuda: Path, monkeypatch: pytest.MonkeyPatch, small_set: Path
) -> None:
    """A call that waits for the device leaves nothing to be seen: it passes, and the report says so."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_cuda))
    monkeypatch.setenv("FAKE_CUDA_BUSY", str(PAUSES[-1] + 1))
    results = verify(small_set, str(faulty("OTHER_STREAM", "-DDEVICE")), kernels=("tree_build",))
    assert results.totals["PASS"] == results.planned
    assert results.notes == (f"{NEVER_LATE} ({results.planned} cases)",)


def test_inputs_do_not_come_late_on_the_host() -> None:
    assert not isinstance(HostMemory(), Delays)


def test_spread_pages_are_watched_page_by_page() -> None:
    memory, stride = HostMemory(), 2**31 + 4096
    pages = SpreadPages(memory, "kv", 3, 40, stride)
    contents = np.arange(3 * 40, dtype=np.uint8).reshape(3, 4, 10)
    pages.stage(contents)
    pages.seal()
    pages.fetch()
    assert pages.read(np.dtype(np.uint8), (3, 4, 10)).tobytes() == contents.tobytes()
    assert (pages.changed(), pages.guard_hits()) == (False, ())
    one = np.array([7], np.uint8)
    memory.upload(pages.address + 2 * stride + 40, one)
    memory.upload(pages.address + stride - GUARD, one)
    pages.fetch()
    assert pages.guard_hits() == ("kv: 1 bytes changed before page 1", "kv: 1 bytes changed after page 2")
    memory.upload(pages.address + stride, one)
    pages.fetch()
    assert pages.changed()
    with pytest.raises(ValueError, match="stride: got 100, want room for a page of 40"):
        SpreadPages(memory, "kv", 3, 40, 100)


def test_a_page_stride_is_no_scalar_of_the_contract() -> None:
    case = attention_case()
    width = int(np.prod(case.inputs["kv"].shape[1:]))
    scalars = {**case.scalars, PAGE_STRIDE: 2**30}
    bind(KERNELS["verify_attn"], case.inputs, scalars)
    assert (
        case_of("verify_attn", case.inputs, scalars, policy="attention").expected.keys()
        == case.expected.keys()
    )
    with pytest.raises(UsageProblem, match="page_stride is 1, want S \\* R or more"):
        bind(KERNELS["verify_attn"], case.inputs, {**scalars, PAGE_STRIDE: 1})
    tree = tree_case(3)
    with pytest.raises(UsageProblem, match="page_stride"):
        bind(KERNELS["tree_build"], tree.inputs, {**tree.scalars, PAGE_STRIDE: width})
