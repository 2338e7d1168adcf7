"""Waivers: known failures that a run lives with, each with a reference to where they are dealt with.

``tolerate`` runs the case: a failure becomes WAIVED, a pass XPASS, which fails the run. ``quarantine`` never
launches it. Nothing is waived silently: an entry that fits no case of the set is refused.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from harness.errors import UsageProblem
from harness.judge import Verdict
from harness.results import Outcome
from harness.runner.conclusion import is_refused
from harness.shapes import kernel_named
from harness.store.index import CaseSummary

Mode = Literal["tolerate", "quarantine"]
_KEYS = ("case", "kernel", "reference", "reason", "mode", "expires")
_KEPT = (Outcome.HARNESS_ERROR, Outcome.NOT_RUN)  # say nothing of the target


@dataclass(frozen=True)
class Waiver:
    """One entry. UsageProblem where it says not what is waived, why, or where that is followed up."""

    case: str  # a case id; * and ? match
    reference: str  # an issue, as URL or text
    reason: str
    mode: Mode
    kernel: str | None = None
    expires: date | None = None  # the first day on which it holds no more

    def __post_init__(self) -> None:
        for name in ("case", "reference", "reason"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise UsageProblem(
                    f"a waiver of {self.case or 'nothing'} has no {name}; every entry needs one"
                )
        if self.mode not in get_args(Mode):
            raise UsageProblem(f"waiver of {self.case}: mode is {self.mode!r}, not tolerate or quarantine")
        if self.kernel is not None:
            kernel_named(self.kernel)

    def fits(self, summary: CaseSummary) -> bool:
        """True for a case that it means."""
        return self.kernel in (None, summary.kernel) and fnmatchcase(summary.case_id, self.case)


@dataclass(frozen=True)
class Waivers:
    """The entries of a file that hold today, and the lines that say which do no more."""

    entries: tuple[Waiver, ...] = ()
    expired: tuple[str, ...] = ()

    def quarantined(self, summary: CaseSummary) -> Verdict | None:
        """The verdict on a case that must not be launched; None for any other."""
        waiver = self._of(summary)
        if waiver is None or waiver.mode != "quarantine":
            return None
        return Verdict(Outcome.WAIVED, f"not launched: {_why(waiver)}")

    def applied(self, summary: CaseSummary, verdict: Verdict) -> Verdict:
        """The verdict on a case that was run, as the waivers leave it."""
        waiver = self._of(summary)
        if waiver is None or verdict.outcome in _KEPT:
            return verdict
        if verdict.outcome is Outcome.PASS:
            return replace(
                verdict, outcome=Outcome.XPASS, message=f"passes: remove its waiver ({_why(waiver)})"
            )
        if verdict.outcome is Outcome.UNSUPPORTED and not is_refused(verdict.outcome, verdict.message):
            return verdict
        message = f"{_why(waiver)}; was {verdict.outcome}: {verdict.message}"
        return replace(verdict, outcome=Outcome.WAIVED, message=message)

    def _of(self, summary: CaseSummary) -> Waiver | None:
        return next((w for w in self.entries if w.fits(summary)), None)


def load_waivers(path: Path, summaries: Sequence[CaseSummary], today: date) -> Waivers:
    """The waivers of a JSON or TOML file for a set with these cases.

    UsageProblem where the file cannot be read, an entry is incomplete, or one fits no case of the set.
    """
    entries = []
    for number, entry in enumerate(_entries(path), 1):
        try:
            entries.append(_waiver(entry))
        except UsageProblem as error:
            raise UsageProblem(f"{path}: entry {number}: {error}") from error
    for waiver in entries:
        if not any(waiver.fits(summary) for summary in summaries):
            where = f" of {waiver.kernel}" if waiver.kernel else ""
            raise UsageProblem(
                f"{path}: the waiver of {waiver.case} fits no case{where} of the set; remove it"
            )
    over = [w for w in entries if w.expires is not None and w.expires <= today]
    return Waivers(
        tuple(w for w in entries if w not in over),
        tuple(f"the waiver of {w.case} expired on {w.expires}: {_why(w)}" for w in over),
    )


def _entries(path: Path) -> list[Mapping[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        body = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageProblem(f"{path}: not a readable waiver file, JSON or .toml ({error})") from error
    entries = body.get("waivers") if isinstance(body, dict) and len(body) == 1 else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageProblem(f"{path}: wants one list called waivers; see docs/outcomes.md")
    return entries


def _waiver(entry: Mapping[str, Any]) -> Waiver:
    if unknown := sorted(entry.keys() - set(_KEYS)):
        raise UsageProblem(f"unknown {', '.join(unknown)}; an entry has {', '.join(_KEYS)}")
    given = {"case": "", "reference": "", "reason": "", "mode": "", **entry}
    expires = given.get("expires")
    if isinstance(expires, str):
        try:
            given["expires"] = date.fromisoformat(expires)
        except ValueError as error:
            raise UsageProblem(f"expires is {expires!r}, not a date like 2027-01-31") from error
    elif expires is not None and type(expires) is not date:
        raise UsageProblem(f"expires is {expires!r}, not a date like 2027-01-31")
    return Waiver(**given)


def _why(waiver: Waiver) -> str:
    return f"{waiver.reason} [{waiver.reference}]"
