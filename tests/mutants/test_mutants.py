"""The right kernels are right, and mutants die of their own class."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from harness.case import Case
from harness.cli import VERBS
from harness.cli.mutants import command
from harness.mutants.bench import Bench
from harness.mutants.build import library_path
from harness.mutants.catalogue import MUTANTS
from harness.mutants.execute import claims, ordered, run_mutant
from harness.mutants.matrix import reproduce
from harness.mutants.model import EVERYWHERE, Fate, Kill, Mutant
from harness.results import Outcome
from harness.runner.naming import relative_target
from harness.runner.verification import verify
from harness.store import open_set


@pytest.fixture
def bench(library: Path, tmp_path: Path):
    made = Bench(library, tmp_path / "mutant", 20.0)
    yield made
    made.close()


def mutant_library(name: str) -> str:
    """What a command that runs this mutant alone names as its target."""
    return named(name).target or relative_target(str(library_path("cpu")))


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def test_the_right_kernels_are_right(library: Path, monkeypatch: pytest.MonkeyPatch, smoke: Path) -> None:
    monkeypatch.delenv("DDTREE_MUTANT", raising=False)
    assert verify(smoke, str(library)).exit_reason == ""


def test_a_mutant_by_its_variable(library: Path, monkeypatch: pytest.MonkeyPatch, smoke: Path) -> None:
    monkeypatch.setenv("DDTREE_MUTANT", "commit_moves_in_falling_order")
    results = verify(smoke, str(library))
    assert "commit_moves_in_falling_order" in results.target.description
    assert {case.kernel for case in results.cases if case.outcome is Outcome.WRONG_VALUES} >= {"kv_commit"}
    monkeypatch.setenv("DDTREE_MUTANT", "nobody")
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        verify(smoke, str(library))


KILLED = {
    "build_barrier_missing_in_mask": Outcome.WRONG_VALUES,
    "attn_mask_transposed": Outcome.WRONG_VALUES,
    "attn_empty_share_unwritten": Outcome.WRONG_VALUES,
    "accept_tail_unwritten": Outcome.UNWRITTEN,
    "abi_writes_past_the_end": Outcome.GUARD_HIT,
    "abi_edits_an_input": Outcome.INPUT_MUTATED,
    "abi_crashes": Outcome.CRASH,
    "abi_refuses_what_it_declares": Outcome.UNSUPPORTED,
    "step_commit_missed": None,
    "target_wider_dtype": Outcome.WRONG_SHAPE,
    "target_raises": Outcome.WRONG_VALUES,
}


@pytest.mark.parametrize("name", KILLED)
def test_mutants_die_of_their_own_class(name: str, bench: Bench, smoke: Path) -> None:
    with open_set(smoke) as cases:
        fate = run_mutant(named(name), cases, bench)
    assert fate.verdict == "killed" and not fate.faults
    assert f"--target {mutant_library(name)} " in reproduce(fate, "cpu")
    outcomes = {kill.outcome for kill in fate.families.values() if kill is not None and kill.claimed}
    assert KILLED[name] is None or KILLED[name] in outcomes


def test_one_mutant_leaves_nothing_for_the_next(bench: Bench, smoke: Path) -> None:
    """After every kind of death the right kernels pass on the same bench."""
    with open_set(smoke) as cases:
        for name in ("abi_crashes", "abi_writes_past_the_end", "step_first_mask_kept", "target_zeros"):
            run_mutant(named(name), cases, bench)
            bench.put(None)
            for summary in cases.summaries("tree_accept")[:3] + cases.summaries("greedy_step")[:3]:
                assert bench.run(cases.case(summary.case_id))[0] is Outcome.PASS


def test_claiming_cases_come_first(smoke: Path) -> None:
    mutant = named("attn_mask_one_word")
    with open_set(smoke) as cases:
        families = ordered(mutant, cases.summaries())
    claimed = [claims(mutant, chosen[0]) for _, chosen in families]
    assert claimed == sorted(claimed, reverse=True) and claimed[0]
    assert {name.split("/")[0] for name, _ in families} == {"verify_attn", "greedy_step"}


class Dying:
    """A bench on which every case costs a worker."""

    library, deaths = Path("x.so"), 0

    def put(self, mutant: Mutant | None) -> None:
        pass

    def run(self, case: Case) -> tuple[Outcome, str]:
        self.deaths += 1
        return Outcome.TIMEOUT, ""


def test_two_dead_workers_are_enough_where_one_kill_decides(smoke: Path) -> None:
    """Two, where one killed that claims the class; all that claim it, where every family has to."""
    one, every = (
        replace(named("abi_hangs"), flags=("walk",)),
        replace(named("abi_hangs"), flags=(EVERYWHERE,)),
    )
    with open_set(smoke) as cases:
        spent = run_mutant(one, cases, cast(Bench, Dying()))
        assert spent.verdict == "killed" and spent.cases == 2
        spent = run_mutant(every, cases, cast(Bench, Dying()))
        assert spent.verdict == "killed" and spent.cases == len(ordered(every, cases.summaries()))


def fate(flags: tuple[str, ...], **families: bool | None) -> Fate:
    """Families by name: True a claiming kill, False another kill, None survived."""
    mutant = Mutant("m", "tree_accept", "wrong-child", flags, "wrong")
    kills = {n: None if c is None else Kill("id", Outcome.WRONG_VALUES, "", c) for n, c in families.items()}
    return Fate(mutant, kills, 1, 0.0)


def test_verdicts() -> None:
    assert fate(("walk",), a=True, b=None).verdict == "killed"
    assert fate(("walk",), a=False, b=None).verdict == "unclaimed"
    assert fate(("walk",), a=None).verdict == "survived"
    assert fate((EVERYWHERE,), a=True, b=True).verdict == "killed"
    assert fate((EVERYWHERE,), a=True, b=None).verdict == "unclaimed"
    assert fate((EVERYWHERE,)).verdict == "survived"


def test_the_command(tmp_path: Path, library: Path, smoke: Path) -> None:
    assert "mutants" in VERBS
    options = ["--suite-dir", str(smoke), "--only", "accept_bonus*", "--only", "attn_lse_unwritten"]
    done = CliRunner().invoke(command, [*options, "--report", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 1, done.output  # one of the eight needs a case that smoke has not
    assert re.search(r"survived\s+accept_bonus_of_none_counts", done.output)
    assert re.search(r"killed\s+accept_bonus_by_length\s.*paths:W!", done.output)
    assert {path.name for path in tmp_path.iterdir()} == {"mutants.json", "mutants.md", "mutants.html"}
    options = [*options[:2], "--only", "accept_bonus_by_length", "--report", str(tmp_path)]
    done = CliRunner().invoke(command, options, standalone_mode=False)
    assert done.return_value == 0, done.output


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_mutant_dies_of_its_own_class(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--report", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 0, done.output[-4000:]
