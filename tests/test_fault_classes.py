"""Every known class of fault is claimed by a flag or held by a test, or said to be outside the contract."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from harness.flags import FLAGS
from harness.mutants.catalogue import MUTANTS
from harness.mutants.document import document
from harness.mutants.faults import FAULTS
from harness.mutants.model import EVERYWHERE
from harness.mutants.suite import FAMILIES

ROOT = Path(__file__).resolve().parents[1]
PARTS = (
    "Building the tree",
    "Masks and positions",
    "Attention",
    "Accepting a path",
    "Committing, stepping, graphs",
    "Checker and timer",
    "Store and reference",
)
KERNEL_PARTS = PARTS[:5]


def test_the_parts_are_those_of_the_page() -> None:
    assert tuple(dict.fromkeys(fault.part for fault in FAULTS.values())) == PARTS
    assert len(FAULTS) >= 80


@pytest.mark.parametrize("name", FAULTS)
def test_a_class_is_claimed_or_held_or_outside(name: str) -> None:
    fault = FAULTS[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    if fault.outside:
        assert not fault.flags and not fault.tests
    elif fault.part in KERNEL_PARTS:
        assert fault.flags, f"{name}: no flag claims it"
    else:
        assert fault.tests, f"{name}: no test holds it"
    assert all(flag == EVERYWHERE or flag in FLAGS for flag in fault.flags)
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", link) for link in fault.links)


@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if f.flags])
def test_a_claimed_class_has_a_mutant(name: str) -> None:
    assert any(mutant.fault == name for mutant in MUTANTS)


@pytest.mark.parametrize("test", sorted({test for fault in FAULTS.values() for test in fault.tests}))
def test_the_tests_that_are_named_exist(test: str) -> None:
    path, _, function = test.partition("::")
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    assert function in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_every_flag_that_claims_a_class_is_carried_by_a_case() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "harness/cases").rglob("*.py"))
    assert FAMILIES
    for fault in FAULTS.values():
        for flag in fault.flags:
            assert flag == EVERYWHERE or f'"{flag}"' in sources or flag in ("mla", "gqa"), flag


def test_the_page_is_what_the_classes_say() -> None:
    page = (ROOT / "docs" / "fault-classes.md").read_text(encoding="utf-8")
    assert page == document(), "write it again: harness mutants --classes > docs/fault-classes.md"
