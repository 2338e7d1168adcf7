"""Charts of a timing page: medians over a size, and the stack of a composed step. Inline SVG, no scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from harness.report import svg
from harness.report.bench_digest import Point, StepStack
from harness.report.text import seconds

WIDTH, HEIGHT = 460, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 10, 34
_STACK_WIDTH, _STACK_HEIGHT = 560, 18


def scatter(points: Sequence[Point], letter: str, title: str) -> str:
    """Every median as a dot, a line through the median of each size; both axes logarithmic."""
    root = svg.picture(WIDTH, HEIGHT, title, "chart plot")
    sizes = sorted({max(p.size, 1) for p in points})
    low, high = _decades([p.seconds for p in points])
    for power in range(low, high + 1):
        y = _y(10.0**power, low, high)
        svg.add(root, "path", d=f"M{_LEFT} {svg.number(y)}H{WIDTH - _RIGHT}", class_="grid")
        label = seconds(10.0**power).replace(".00", "").replace(".0", "")
        svg.add(root, "text", label, x=_LEFT - 6, y=y + 4, text_anchor="end", font_size=11)
    for size in _ticks(sizes):
        x = _x(size, sizes)
        svg.add(root, "text", f"{size:,}", x=x, y=HEIGHT - 18, text_anchor="middle", font_size=11)
    svg.add(root, "text", letter, x=(WIDTH + _LEFT) / 2, y=HEIGHT - 3, text_anchor="middle", font_size=11)
    for number, label in enumerate(dict.fromkeys(p.label for p in points)):
        mine = [p for p in points if p.label == label]
        dots = "".join(_dot(_x(p.size, sizes), _y(p.seconds, low, high)) for p in mine)
        svg.add(root, "path", d=dots, class_=f"dots s{number}")
        line = [(size, median(p.seconds for p in mine if max(p.size, 1) == size)) for size in sizes
                if any(max(p.size, 1) == size for p in mine)]  # fmt: skip
        path = "L".join(f"{svg.number(_x(s, sizes))} {svg.number(_y(t, low, high))}" for s, t in line)
        svg.add(root, "path", d=f"M{path}", class_=f"line s{number}", fill="none")
    return svg.markup(root)


def stack(step: StepStack, longest: float) -> str:
    """One composed step: its kernels side by side, then the rest; ``longest`` (seconds) is the full width."""
    total = max(step.whole, sum(value for _, value in step.parts))
    words = ", ".join(f"{name} {seconds(value)}" for name, value in step.parts)
    title = f"step {seconds(step.whole)}: {words}, rest {seconds(step.rest)}"
    root = svg.picture(_STACK_WIDTH, _STACK_HEIGHT, title, "chart stack")
    scale = (_STACK_WIDTH - 2) / longest if longest > 0 else 0.0
    x = 0.0
    for number, (_, value) in enumerate(step.parts):
        svg.add(root, "rect", x=x, y=1, width=max(value * scale - 1, 0.5), height=16, class_=f"part{number}")
        x += value * scale
    if total > x / scale if scale else False:
        svg.add(root, "rect", x=x, y=1, width=max((total * scale) - x, 0.5), height=16, class_="rest")
    mark = svg.number(step.whole * scale)
    svg.add(root, "path", d=f"M{mark} 0V{_STACK_HEIGHT}", class_="mid", stroke="currentColor")
    return svg.markup(root)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    known = [v for v in values if v > 0] or [1e-6]
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    return low, max(high, low + 1)


def _x(size: int, sizes: Sequence[int]) -> float:
    first, last = math.log(sizes[0]), math.log(max(sizes[-1], sizes[0] + 1))
    return _LEFT + 8 + (math.log(max(size, 1)) - first) / (last - first) * (WIDTH - _LEFT - _RIGHT - 16)


def _y(value: float, low: int, high: int) -> float:
    part = (math.log10(max(value, 10.0**low)) - low) / (high - low)
    return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)


def _ticks(sizes: Sequence[int]) -> list[int]:
    """At most seven sizes that stand apart."""
    shown = [sizes[0]]
    for size in sizes[1:]:
        if _x(size, sizes) - _x(shown[-1], sizes) > 46:
            shown.append(size)
    return shown


def _dot(x: float, y: float) -> str:
    """A circle of radius 2 as a path, so that thousands of dots stay small."""
    return f"M{svg.number(x - 2)} {svg.number(y)}a2 2 0 1 0 4 0a2 2 0 1 0 -4 0"
