"""Small inline charts: a distribution on a shared axis, and the outcome bar."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.report import svg
from harness.report.text import count, seconds, share

WIDTH, HEIGHT, _BIN = 360, 30, 4
_INSET = 18


@dataclass(frozen=True)
class Axis:
    """A scale that several charts share; ``ticks`` are values with their labels."""

    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def x(self, value: float) -> float:
        """The horizontal place of a value; values off the axis stand at its ends."""
        if self.log:
            part = (math.log10(max(value, self.low)) - math.log10(self.low)) / (
                math.log10(self.high) - math.log10(self.low)
            )
        else:
            part = (value - self.low) / (self.high - self.low)
        return _INSET + min(1.0, max(0.0, part)) * (WIDTH - 2 * _INSET)


def time_axis(times: Sequence[float]) -> Axis:
    """Whole decades around ``times``."""
    known = [t for t in times if t > 0] or [1e-6]
    first, last = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    first = min(max(first, -12), 8)
    last = min(max(last, first + 1), 9)
    step = 1 + (last - first) // 6
    decades = range(first, last + 1, step)
    ticks = tuple((10.0**d, seconds(10.0**d).replace(".00", "").replace(".0", "")) for d in decades)
    return Axis(10.0**first, 10.0**last, True, ticks)


def share_axis(worst: float) -> Axis:
    """From nothing to the whole allowance, and a little beyond where something is beyond."""
    high = 1.0 if worst <= 1 else 1.25
    return Axis(0.0, high, False, ((0.0, "0"), (0.25, "¼"), (0.5, "½"), (0.75, "¾"), (1.0, "1")))


def scale(axis: Axis) -> str:
    """The axis by itself, to stand once above the charts that share it."""
    root = svg.picture(WIDTH, 16, f"axis from {axis.ticks[0][1]} to {axis.ticks[-1][1]}", "axis")
    for value, label in axis.ticks:
        svg.add(root, "text", label, x=axis.x(value), y=11, font_size=11, text_anchor="middle")
    return svg.markup(root)


def distribution(values: Sequence[float], axis: Axis, title: str, limit: float | None = None) -> str:
    """How often each value occurs: one bar per bin, a line at the median, red bars beyond ``limit``."""
    root = svg.picture(WIDTH, HEIGHT, title, "chart")
    grid = "".join(f"M{svg.number(axis.x(value))} 0V{HEIGHT}" for value, _ in axis.ticks)
    svg.add(root, "path", d=grid, class_="grid", stroke="currentColor", stroke_opacity=0.2)
    inside, beyond = Counter[int](), Counter[int]()
    for value in values:
        bins = beyond if limit is not None and value > limit else inside
        bins[int(axis.x(value) // _BIN)] += 1
    tallest = max((*inside.values(), *beyond.values()), default=1)
    for bins, css in ((inside, "bars"), (beyond, "bars over")):
        if bins:
            svg.add(root, "path", d=_bars(bins, tallest), class_=css, fill_opacity=0.5)
    if values:
        middle = axis.x(sorted(values)[len(values) // 2])
        svg.add(root, "path", d=f"M{svg.number(middle)} 0V{HEIGHT}", class_="mid", stroke="currentColor")
    return svg.markup(root)


def _bars(bins: Mapping[int, int], tallest: int) -> str:
    def bar(place: int, many: int) -> str:
        height = 3 + (HEIGHT - 6) * math.sqrt(many / tallest)
        return f"M{place * _BIN} {HEIGHT}v{svg.number(-height)}h{_BIN - 1}V{HEIGHT}z"

    return "".join(bar(place, many) for place, many in sorted(bins.items()))


def outcome_bar(counts: Mapping[str, int]) -> str:
    """One bar of the whole run, cut by standing; a single failure among thousands stays visible."""
    shown = {name: many for name, many in counts.items() if many}
    total = sum(shown.values()) or 1
    title = ", ".join(count(many, name, name) for name, many in shown.items())
    root = svg.picture(1000, 10, title or "no cases", "bar")
    root.set("preserveAspectRatio", "none")
    widths = {name: max(6.0, 1000 * many / total) for name, many in shown.items()}
    excess = sum(widths.values()) - 1000
    x = 0.0
    for name, width in widths.items():
        wide = width - excess if width == max(widths.values()) else width
        svg.add(root, "rect", x=x, y=0, width=max(1.0, wide - 3), height=10, class_=name)
        x += wide
    return svg.markup(root)


def share_chart(values: Sequence[float], axis: Axis, name: str) -> str:
    """The distribution of shares of one kernel."""
    title = f"{name}: shares of the allowance, worst {share(max(values, default=0.0))}"
    return distribution(values, axis, title, limit=1.0)


def time_chart(values: Sequence[float], axis: Axis, name: str) -> str:
    """The distribution of the times of one kernel; ``values`` rise."""
    title = f"{name}: no times"
    if values:
        title = f"{name}: {seconds(values[0])} to {seconds(values[-1])}"
    return distribution(values, axis, title)
