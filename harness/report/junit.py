"""JUnit XML: every planned case, one suite per kernel."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree as ET

from harness.report import digest
from harness.report.text import clean, place, share
from harness.results import CaseResult, Results


def render(results: Results) -> str:
    """The XML text. Failures are ``failure``, NOT_RUN and HARNESS_ERROR ``error``, the rest ``skipped``."""
    root = ET.Element("testsuites", name=clean(f"ddtree {results.target.name}"))
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for kernel in digest.kernels(results):
        counts = {
            "tests": len(kernel.cases),
            "failures": kernel.counts["fail"],
            "errors": kernel.counts["error"],
            "skipped": kernel.counts["skip"],
        }
        suite = _suite(root, kernel.name, counts, results, sum(c.seconds or 0.0 for c in kernel.cases))
        for case in kernel.cases:
            _case(suite, case, kernel.budget)
        totals = {name: totals[name] + counts[name] for name in totals}
    if missing := digest.lost(results):
        counts = {"tests": 1, "failures": 0, "errors": 1, "skipped": 0}
        suite = _suite(root, "harness", counts, results, 0.0)
        test = ET.SubElement(suite, "testcase", classname="harness", name="planned cases without a result")
        ET.SubElement(test, "error", message=f"{missing} planned cases have no result", type="NOT_RUN")
        totals = {name: totals[name] + counts[name] for name in totals}
    for name, number in totals.items():
        root.set(name, str(number))
    root.set("time", f"{results.run.seconds:.6f}")
    ET.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _suite(
    root: ET.Element, name: str, counts: Mapping[str, int], results: Results, seconds: float
) -> ET.Element:
    suite = ET.SubElement(root, "testsuite", name=clean(name))
    for attribute, number in counts.items():
        suite.set(attribute, str(number))
    suite.set("time", f"{seconds:.6f}")
    suite.set("timestamp", clean(results.run.time))
    about = {
        "target": results.target.name,
        "timing": results.target.timing,
        "suite": results.run.suite,
        "contract": results.run.contract_version,
        "fixture_hash": results.run.fixture_hash,
    }
    _properties(suite, about)
    return suite


def _properties(parent: ET.Element, values: Mapping[str, str]) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(properties, "property", name=name, value=clean(value))


def _case(suite: ET.Element, case: CaseResult, budget: bool) -> None:
    test = ET.SubElement(
        suite,
        "testcase",
        classname=clean(f"{case.kernel}.{case.family}"),
        name=clean(case.case_id),
        time=f"{case.seconds or 0.0:.9f}",
    )
    values = {
        "id": case.case_id,
        "flags": " ".join(case.flags),
        "policy": case.policy,
        "outcome": case.outcome,
        "share": share(case.share, case.policy),
    }
    _properties(test, values)
    standing = digest.standing(case.outcome, budget)
    element = {"fail": "failure", "error": "error", "skip": "skipped"}.get(standing)
    if element is None:
        return
    detail = ET.SubElement(test, element, message=clean(f"{case.outcome}: {case.message}"))
    if element != "skipped":
        detail.set("type", case.outcome)
        detail.text = clean("\n".join(_detail(case)))


def _detail(case: CaseResult) -> list[str]:
    lines = [case.message]
    if (found := case.mismatch) is not None:
        lines += [
            f"first wrong element: {place(found.array, found.index)}",
            f"expected: {found.expected}",
            f"got: {found.got}",
            f"wrong elements: {found.wrong} of {found.total}",
        ]
    return [*lines, f"reproduce: {case.reproduce}"]
