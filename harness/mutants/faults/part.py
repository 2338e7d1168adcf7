"""How the files of this package write a class of fault down."""

from __future__ import annotations

from harness.mutants.model import Fault


def fault(
    part: str, title: str, flags: str = "", links: str = "", *, tests: str = "", outside: str = ""
) -> Fault:
    """A class of ``part``; flags, links and tests are one string each, divided by blanks."""
    return Fault(title, part, tuple(flags.split()), tuple(tests.split()), tuple(links.split()), outside)
