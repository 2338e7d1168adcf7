"""One case for human eyes: what it is, why it exists, what it holds and how its trees look."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from harness.case import Case, Expected, Patched, Recipe, Sampled
from harness.contract import KERNELS
from harness.errors import UsageProblem
from harness.flags import FLAGS
from harness.forest import Node, RequestTree, request_count, trees
from harness.judge.rows import described
from harness.shapes import dtype_of, kernel_named, shape_of
from harness.store import FixtureSet

MAX_TREES, MAX_NODES, MAX_NAMES = 4, 96, 5


def find_case(opened: FixtureSet, case_id: str) -> Case:
    """The case, or UsageProblem that names those with a similar id."""
    try:
        return opened.case(case_id)
    except UsageProblem:
        known = [summary.case_id for summary in opened.summaries()]
    near = [one for one in known if case_id and case_id in one][:MAX_NAMES]
    near = near or difflib.get_close_matches(case_id, known, n=MAX_NAMES, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else f"`harness list {opened.folder}` names them"
    raise UsageProblem(f"no case {case_id!r} in {opened.folder}; {hint}")


def render(case: Case, dims: Mapping[str, int], request: int | None = None) -> RenderableType:
    """Everything `harness show` prints. UsageProblem for a request that the case does not have."""
    requests = request_count(case)
    if request is not None and not 0 <= request < requests:
        raise UsageProblem(f"{case.case_id} has requests 0 to {requests - 1}, not {request}")
    head = Text(case.case_id, style="bold")
    about = Text(
        f"{case.kernel}, family {case.family}, {case.validity}, policy {case.policy}, seed {case.seed}"
    )
    return Group(
        head,
        about,
        Text(KERNELS[case.kernel].doc, style="dim"),
        Text(),
        *_flags(case),
        _pairs("Dimensions", dims),
        *([_pairs("Scalars", case.scalars)] if case.scalars else []),
        *([_pairs("Proved when made", case.notes)] if case.notes else []),
        Text(),
        _arrays(case),
        *_trees(case, request),
    )


def _pairs(title: str, values: Mapping[str, int | float]) -> Text:
    return Text.assemble(
        (f"{title}  ", "bold"), "  ".join(f"{name} {value!r}" for name, value in values.items())
    )


def _flags(case: Case) -> Iterator[RenderableType]:
    table = Table("flag", "probes", "effect", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in case.flags:
        flag = FLAGS.get(name)
        table.add_row(Text(name), Text(flag.probes if flag else "unknown"), Text(flag.effect if flag else ""))
    if case.flags:
        yield table
        yield Text()


def _arrays(case: Case) -> Table:
    table = Table(
        "array", "role", "type", "shape", "content", box=None, padding=(0, 2, 0, 0), header_style="bold"
    )
    for role, values in (("input", case.inputs), ("expected", case.expected)):
        for name, value in values.items():
            shape = " x ".join(map(str, shape_of(value))) or "scalar"
            table.add_row(name, role, _dtype(case.kernel, name, value), shape, _content(value))
    return table


def _dtype(kernel: str, name: str, value: Expected) -> str:
    known = {array.name: array.dtype for array in kernel_named(kernel).arrays}
    return str(known.get(name, np.dtype(dtype_of(value)).name))


def _content(value: Expected) -> str:
    if isinstance(value, Recipe):
        return f"recipe {value.kind}, seed {value.seed}"
    if isinstance(value, Sampled):
        return described(value)
    if isinstance(value, Patched):
        return f"recipe {value.base.kind}, seed {value.base.seed}, {len(value.rows)} rows replaced"
    little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    return f"sha256 {hashlib.sha256(little.tobytes()).hexdigest()[:16]}"


def _trees(case: Case, request: int | None) -> Iterator[RenderableType]:
    found = list(trees(case, request))
    for tree in found[:MAX_TREES]:
        yield Text()
        yield _drawing(tree)
    if (more := len(found) - MAX_TREES) > 0:
        yield Text(f"\n{more} more trees; --request N shows those of one request", style="dim")


def _drawing(tree: RequestTree) -> RenderableType:
    step = "" if tree.step is None else f"step {tree.step}, "
    title = Text.assemble((f"{step}request {tree.request}", "bold"))
    if tree.path:
        title.append(f"  accepted path {' > '.join(map(str, tree.path))}", style="green")
    if not tree.nodes:
        return title if tree.path else title.append("  no tree", style="dim")
    children: dict[int, list[Node]] = {}
    for node in tree.nodes[1:]:
        children.setdefault(node.parent, []).append(node)
    root = Tree(title.append("\n").append_text(_label(tree.nodes[0], tree.path)), guide_style="dim")
    drawn = 1
    stack = [(node, root) for node in reversed(children.get(0, []))]
    while stack and drawn < MAX_NODES:
        node, above = stack.pop()
        branch = above.add(_label(node, tree.path))
        drawn += 1
        stack.extend((child, branch) for child in reversed(children.get(node.index, [])))
    if loose := len(children.get(-1, [])):
        root.add(Text(f"{loose} nodes hang on nothing", style="dim"))
    if left := len(tree.nodes) - drawn - loose:
        root.add(Text(f"{left} more nodes", style="dim"))
    return root


def _label(node: Node, path: tuple[int, ...]) -> Text:
    accepted = node.index in path
    label = Text(f"{node.index}", style="bold green" if accepted else "")
    if node.token is not None:
        label.append(f"  token {node.token}")
    if node.score is not None:
        label.append(f"  score {node.score:.6g}", style="dim")
    if node.predicts is not None:
        label.append(f"  predicts {node.predicts}", style="dim")
    if accepted and node.index:
        label.append("  accepted")
    return label
