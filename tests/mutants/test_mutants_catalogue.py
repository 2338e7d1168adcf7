"""The catalogue of mutants is complete and plain, and names what the library has."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.contract import KERNELS
from harness.flags import FLAGS
from harness.mutants import fakes
from harness.mutants.build import source_folder
from harness.mutants.catalogue import MUTANTS
from harness.mutants.execute import kernels_of, ordered
from harness.mutants.faults import FAULTS
from harness.mutants.model import EVERYWHERE, Mutant
from harness.mutants.suite import FAMILIES
from harness.store import open_set

SWITCHES = [mutant for mutant in MUTANTS if not mutant.target]


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


def test_usage() -> None:
    assert CliRunner().invoke(cli, ["mutants", "--list"], standalone_mode=False).return_value == 0
    done = CliRunner().invoke(cli, ["mutants", "--only", "nobody"], standalone_mode=False)
    assert "names no mutant" in str(done.exception)
