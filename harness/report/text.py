"""Values as readers see them: cleaned, clipped, with units. Foreign text passes through here first."""

from __future__ import annotations

import re

# What XML 1.0 forbids, what terminals obey and what reverses the reading direction.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_SHORT = 400


def clean(text: str) -> str:
    """``text`` with every unsafe character shown as an escape, so that it neither acts nor disappears."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def clip(text: str, limit: int = _SHORT) -> str:
    """Clean text of at most ``limit`` characters and a note of how many are missing."""
    text = clean(text)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} characters more)"


def one_line(text: str, limit: int = _SHORT) -> str:
    """Like `clip`, with every run of white space as one blank."""
    return clip(" ".join(text.split()), limit)


def seconds(value: float | None) -> str:
    """A duration with three significant digits and a unit: ``4.20 µs``."""
    if value is None:
        return "none"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 0.9995:
            return f"{_three(value * factor)} {unit}"
    return f"{_three(value * 1e9)} ns" if value else "0 s"


def _three(number: float) -> str:
    size = abs(number)
    return f"{number:.2f}" if size < 9.995 else f"{number:.1f}" if size < 99.95 else f"{number:,.0f}"


def share(value: float | None, policy: str = "exact") -> str:
    """The share of the allowance used; ``exact`` where every output is compared bit for bit."""
    if value is None:
        return "exact" if policy == "exact" else "not measured"
    return f"{value:.3f}" if value < 10 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """``12.5%``, or a dash where there is none."""
    return "-" if value is None else f"{value:.1%}"


def count(number: int, singular: str, plural: str = "") -> str:
    """``1 case``, ``2,500 cases``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def place(array: str, index: tuple[int, ...]) -> str:
    """``tree_mask[0, 3, 1]``; the name alone for an array without axes."""
    return f"{array}[{', '.join(map(str, index))}]" if index else array
