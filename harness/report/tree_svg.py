"""The picture of one request's tree: nodes by depth, expected and actual path, first divergence.

The data may come from a broken kernel, so nothing is taken for granted: a node without a sound parent is
not drawn, a path may jump, and at most `MAX_NODES` nodes are shown, those near the paths first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.etree import ElementTree as ET

from harness.report import svg
from harness.report.text import count
from harness.results import TreePicture

MAX_NODES = 36
_PILL, _TALL, _COLUMN, _ROW, _TOP, _SIDE = 78, 20, 114, 27, 34, 8


@dataclass
class _Layout:
    children: dict[int, list[int]] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)
    hidden: dict[int, int] = field(default_factory=dict)
    row: dict[int, float] = field(default_factory=dict)

    def left(self, node: int) -> float:
        return _SIDE + self.depth[node] * _COLUMN

    def middle(self, node: int) -> float:
        return _TOP + self.row[node] * _ROW + _TALL / 2


def path(nodes: Sequence[int]) -> tuple[int, ...]:
    """A path up to its first -1."""
    end = next((i for i, node in enumerate(nodes) if node < 0), len(nodes))
    return tuple(nodes[:end])


def divergence(expected: Sequence[int], actual: Sequence[int]) -> int | None:
    """The step at which two paths part; None where they agree."""
    for step in range(max(len(expected), len(actual))):
        if expected[step : step + 1] != actual[step : step + 1]:
            return step
    return None


def describe(picture: TreePicture) -> str:
    """The picture in words."""
    expected, actual = path(picture.expected_path), path(picture.actual_path)
    where = f"Request {picture.request}: "
    step = divergence(expected, actual)
    if step is None:
        return f"{where}both paths are {_words(expected)}."
    before = f"after node {expected[step - 1]} (depth {step - 1})" if step else "at the start"
    want = f"node {expected[step]}" if step < len(expected) else "the end of the path"
    got = f"node {actual[step]}" if step < len(actual) else "the end of the path"
    return f"{where}the paths part {before}: expected {want}, got {got}."


def _words(nodes: Sequence[int]) -> str:
    shown = " → ".join(map(str, nodes[:12]))
    return f"{shown} → …" if len(nodes) > 12 else shown or "empty"


def render(picture: TreePicture) -> str:
    """The inline SVG."""
    expected, actual = path(picture.expected_path), path(picture.actual_path)
    layout = _layout(picture, {*expected, *actual})
    width = 2 * _SIDE + max(layout.depth.values(), default=0) * _COLUMN + _PILL + 30
    height = _TOP + (max(layout.row.values(), default=0) + 1) * _ROW + 4
    root = svg.picture(width, height, describe(picture), "tree")
    for depth in sorted(set(layout.depth.values())):
        svg.add(
            root, "text", f"depth {depth}", x=_SIDE + depth * _COLUMN + 2, y=11, class_="col", font_size=10
        )
    _edges(root, layout, expected, actual)
    _pills(root, layout, expected, actual)
    _labels(root, layout, picture.token)
    step = divergence(expected, actual)
    if step and expected[step - 1] in layout.row:
        _mark(root, layout, expected[step - 1])
    return svg.markup(root)


def _layout(picture: TreePicture, paths: set[int]) -> _Layout:
    parents = {0: -1} if picture.parent else {}
    depths = {0: 0} if picture.parent else {}
    for node, parent in enumerate(picture.parent[1:], 1):
        if 0 <= parent < node and parent in depths:
            parents[node], depths[node] = parent, depths[parent] + 1
    near = {n for n in depths if n in paths or parents[n] in paths}
    wanted = sorted(depths, key=lambda n: (n != 0 and n not in paths, n not in near, n))
    shown: set[int] = set()
    for node in wanted[:MAX_NODES]:
        while node >= 0 and node not in shown:  # a node is shown with all its ancestors
            shown.add(node)
            node = parents[node]
    layout = _Layout(depth={n: depths[n] for n in sorted(shown)})
    for node in sorted(depths):
        if node in shown:
            layout.children.setdefault(parents[node], []).append(node)
        else:
            above = parents[node]
            while above not in shown:
                above = parents[above]
            layout.hidden[above] = layout.hidden.get(above, 0) + 1
    _place(layout)
    return layout


def _place(layout: _Layout) -> None:
    """Leaves take rows from the top, in order; a parent stands between its first and last child."""
    next_row = 0
    stack = [(node, False) for node in layout.children.get(-1, [])]
    while stack:
        node, done = stack.pop()
        below = layout.children.get(node, [])
        if not below:
            layout.row[node] = next_row
            next_row += 1
        elif done:
            layout.row[node] = (layout.row[below[0]] + layout.row[below[-1]]) / 2
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(below))


def _edges(root: ET.Element, layout: _Layout, expected: tuple[int, ...], actual: tuple[int, ...]) -> None:
    drawn = [_curve(layout, p, c, 0) for p, below in layout.children.items() for c in below if p >= 0]
    if drawn:
        svg.add(root, "path", d="".join(drawn), class_="edge", fill="none", stroke="currentColor")
    agreed = divergence(expected, actual) is None
    for nodes, css, shift in ((expected, "want", -1.6), (actual, "got", 1.6)):
        pairs = [(a, b) for a, b in pairwise(nodes) if {a, b} <= layout.row.keys()]
        if not pairs or (agreed and css == "got"):
            continue
        line = "".join(_curve(layout, a, b, 0 if agreed else shift) for a, b in pairs)
        line_of = svg.add(
            root, "path", d=line, class_=css, fill="none", stroke="currentColor", stroke_width=2
        )
        if css == "got":
            line_of.set("stroke-dasharray", "5 3")


def _curve(layout: _Layout, start: int, end: int, shift: float) -> str:
    x0, y0 = layout.left(start) + _PILL, layout.middle(start) + shift
    x1, y1 = layout.left(end), layout.middle(end) + shift
    bend = (x0 + x1) / 2 + (shift if y1 < y0 else -shift)  # parallel lines stay apart on steep parts
    a, b, c, d, e = (svg.number(v) for v in (x0, y0, bend, y1, x1))
    return f"M{a} {b}C{c} {b} {c} {d} {e} {d}"


def _pills(root: ET.Element, layout: _Layout, expected: tuple[int, ...], actual: tuple[int, ...]) -> None:
    names = {(True, True): "both", (True, False): "want", (False, True): "got", (False, False): "off"}
    groups: dict[str, ET.Element] = {}
    for node in sorted(layout.row):
        css = names[node in expected, node in actual]
        if css not in groups:
            groups[css] = svg.add(root, "g", class_=f"pill {css}", fill="none", stroke="currentColor")
        _box(groups[css], layout, node, 0)


def _labels(root: ET.Element, layout: _Layout, tokens: Sequence[int]) -> None:
    """The number of each node on the left, its token on the right, hidden descendants outside."""
    numbers = svg.add(root, "g", class_="num", font_size=9)
    named = svg.add(root, "g", class_="tok", font_size=11, text_anchor="end")
    for node in sorted(layout.row):
        x, y = layout.left(node), layout.middle(node)
        svg.add(numbers, "text", str(node), x=x + 6, y=y + 3.5)
        if hidden := layout.hidden.get(node):
            svg.add(numbers, "text", f"+{hidden}", x=x + _PILL + 4, y=y - 5)
        token = str(tokens[node]) if node < len(tokens) else "?"
        token = token if len(token) <= 8 else f"{token[:7]}…"
        svg.add(named, "text", token, x=x + _PILL - 6, y=y + 4)


def _box(parent: ET.Element, layout: _Layout, node: int, around: float) -> None:
    x, y = layout.left(node) - around, layout.middle(node) - _TALL / 2 - around
    wide, tall = _PILL + 2 * around, _TALL + 2 * around
    svg.add(parent, "rect", x=x, y=y, width=wide, height=tall, rx=4 + around)


def _mark(root: ET.Element, layout: _Layout, node: int) -> None:
    ring = svg.add(root, "g", class_="ring", fill="none", stroke="currentColor")
    _box(ring, layout, node, 3.5)
    x, y = layout.left(node), layout.middle(node) - _TALL / 2 - 7
    svg.add(root, "text", "paths part here", x=x, y=y, class_="part", font_size=10)


def hidden_note(picture: TreePicture) -> str:
    """How many nodes the picture leaves out, or nothing."""
    layout = _layout(picture, {*path(picture.expected_path), *path(picture.actual_path)})
    left_out = sum(layout.hidden.values())
    return f"{count(left_out, 'node')} far from both paths not drawn (+n)." if left_out else ""
