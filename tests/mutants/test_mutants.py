"""The catalogue is complete and plain, the right kernels are right, and mutants die of their own class."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from harness.case import Case
from harness.cli import VERBS, cli
from harness.cli.mutants import command
from harness.contract import KERNELS
from harness.flags import FLAGS
from harness.generate import generate
from harness.mutants import build as build_module
from harness.mutants import campaign, fakes
from harness.mutants.bench import Bench
from harness.mutants.build import build_library, library_path, source_folder
from harness.mutants.campaign import Campaign, run_campaign
from harness.mutants.catalogue import MUTANTS
from harness.mutants.execute import claims, kernels_of, ordered, run_mutant
from harness.mutants.faults import FAULTS
from harness.mutants.matrix import reproduce
from harness.mutants.model import EVERYWHERE, Fate, Kill, Mutant
from harness.mutants.suite import FAMILIES
from harness.results import Outcome
from harness.runner.naming import relative_target
from harness.runner.verification import verify
from harness.store import open_set

SWITCHES = [mutant for mutant in MUTANTS if not mutant.target]


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutants") / "smoke"
    generate("smoke", folder, jobs=1)
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library("cpu", tmp_path_factory.mktemp("library"))


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


def test_there_are_enough_and_no_name_twice() -> None:
    assert len(MUTANTS) >= 80
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert sum(bool(mutant.needs) for mutant in MUTANTS) <= 15


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_has_a_class_that_its_flags_claim(mutant: Mutant) -> None:
    assert mutant.kernel in (*KERNELS, EVERYWHERE)
    assert mutant.flags and set(mutant.flags) <= set(FAULTS[mutant.fault].flags)
    assert all(flag == EVERYWHERE or flag in FLAGS for flag in mutant.flags)
    assert 3 < len(mutant.what) < 100 and not mutant.what.endswith(".")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_selection_has_cases_that_claim_it(mutant: Mutant) -> None:
    planned = {(family.kernel, family.name) for family in FAMILIES if list(family.plan("standard"))}
    assert any(kernel in kernels_of(mutant) for kernel, _ in planned)


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.needs], ids=lambda mutant: mutant.name)
def test_what_only_a_gpu_shows_is_claimed_by_small_cases(mutant: Mutant, smoke: Path) -> None:
    assert mutant.runs_on("cuda") and not mutant.runs_on("cpu")
    with open_set(smoke) as cases:
        families = ordered(mutant, cases.summaries())
    claimed = {flag for _, chosen in families for case in chosen for flag in case.flags} & set(mutant.flags)
    assert claimed == set(mutant.flags)


def test_the_catalogue_names_the_switches_of_the_library(library: Path) -> None:
    names, number = [], 1
    handle = ctypes.CDLL(str(library))
    handle.mutant_name.restype = ctypes.c_char_p
    while name := handle.mutant_name(number):
        names.append(name.decode())
        number += 1
    assert sorted(names) == sorted(mutant.name for mutant in SWITCHES)
    assert handle.mutant_select(b"nobody") == 1 and handle.mutant_select(names[0].encode()) == 0


def test_every_switch_stands_in_the_sources() -> None:
    sources = "".join(path.read_text() for path in source_folder().glob("*.*"))
    asked = set(re.findall(r"mutant\((\w+)\)", sources)) - {"nothing"}
    assert asked == {mutant.name for mutant in SWITCHES}


def test_every_target_in_python_exists() -> None:
    for mutant in MUTANTS:
        if mutant.target:
            assert mutant.target.partition(":")[0] == fakes.__name__
            assert issubclass(getattr(fakes, mutant.target.partition(":")[2]), fakes._Fake)


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


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A source tree whose build is instant; every build leaves another library. Where it lies."""
    source = tmp_path / "cuda" / "mutants"
    source.mkdir(parents=True)
    running, built = threading.Semaphore(1), count()

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert running.acquire(blocking=False), "two builds in one folder"
        time.sleep(0.05)
        library_path("cpu").write_text(str(next(built)))
        running.release()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(build_module, "source_folder", lambda: source)
    monkeypatch.setattr(build_module.shutil, "which", lambda name, path=None: name)
    monkeypatch.setattr(build_module.subprocess, "run", run)
    return library_path("cpu")


def test_one_build_at_a_time_and_each_run_keeps_its_own(instant: Path, tmp_path: Path) -> None:
    folders = [tmp_path / str(i) for i in range(4)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(4) as pool:
        libraries = list(pool.map(lambda folder: build_library("cpu", folder), folders))
    assert [library.parent for library in libraries] == folders
    assert len({library.read_text() for library in libraries}) == 4


def test_a_build_during_a_run_changes_nothing(
    library: Path, smoke: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another run builds anew while this one has proved the right kernels and starts its workers."""
    linked = tmp_path / library.name
    shutil.copy2(library, linked)
    prove = campaign._prove_right

    def prove_and_relink(*arguments: Any) -> dict[str, str]:
        facts = prove(*arguments)
        linked.write_bytes(linked.read_bytes()[:4096])  # a linker that is half done
        return facts

    monkeypatch.setattr(build_module, "_build", lambda target: linked)
    monkeypatch.setattr(campaign, "_prove_right", prove_and_relink)
    made = run_campaign(Campaign(suite_dir=smoke, only=("accept_bonus_by_length",)), "")
    assert made.totals["killed"] == 1 and not made.harness_faults


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_the_mutants_build_for_a_gpu(tmp_path: Path) -> None:
    exported = subprocess.run(
        ["nm", "-D", build_library("cuda", tmp_path)], capture_output=True, text=True, check=True
    )
    assert " T ddtree_greedy_step" in exported.stdout


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


def test_usage() -> None:
    assert CliRunner().invoke(cli, ["mutants", "--list"], standalone_mode=False).return_value == 0
    done = CliRunner().invoke(cli, ["mutants", "--only", "nobody"], standalone_mode=False)
    assert "names no mutant" in str(done.exception)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_mutant_dies_of_its_own_class(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--report", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 0, done.output[-4000:]
