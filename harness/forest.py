"""The trees inside a case, whatever its kernel: nodes with tokens, scores and the accepted path.

Links and masks of invalid cases may be anything; what does not hang together is counted, not followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.case import AnyArray, Case, known
from harness.shapes import shape_of

_TREE = ("node_token", "node_parent", "next_token", "next_sibling", "tree_mask", "node_count")
_USED = {*_TREE, "topk_logprob", "target_predict", "accept_index", "accept_len"}


@dataclass(frozen=True)
class Node:
    """One node; ``score`` only where the case brings log-probs."""

    index: int
    parent: int  # -1 for the root and for a node that hangs on nothing
    token: int | None
    score: float | None = None
    predicts: int | None = None


@dataclass(frozen=True)
class RequestTree:
    """The tree of one request (of one step); ``path`` holds the accepted nodes, root first."""

    step: int | None
    request: int
    nodes: tuple[Node, ...]
    path: tuple[int, ...] = ()


def trees(case: Case, request: int | None = None) -> Iterator[RequestTree]:
    """The trees of a case, all or of one request, in order. kv_commit has paths without nodes."""
    arrays = {name: known(value) for name, value in {**case.inputs, **case.expected}.items() if name in _USED}
    steps = list(range(len(arrays["node_count"]))) if case.kernel == "greedy_step" else [None]
    for step in steps:
        mine = {name: array[step] for name, array in arrays.items()} if step is not None else arrays
        for b in range(_requests(mine)) if request is None else [request]:
            yield RequestTree(step, b, tuple(_nodes(mine, b)), _path(mine, b))


def request_count(case: Case) -> int:
    """Requests in the batch."""
    return shape_of(case.inputs["prefix_len" if "prefix_len" in case.inputs else "node_count"])[-1]


def _requests(arrays: dict[str, AnyArray]) -> int:
    return len(arrays["node_count"] if "node_count" in arrays else arrays["accept_len"])


def _path(arrays: dict[str, AnyArray], b: int) -> tuple[int, ...]:
    if "accept_index" not in arrays or arrays["accept_len"][b] < 0:
        return ()
    return tuple(int(i) for i in arrays["accept_index"][b] if i >= 0)


def _nodes(arrays: dict[str, AnyArray], b: int) -> Iterator[Node]:
    if "node_count" not in arrays:
        return
    slots = (arrays["node_token"] if "node_token" in arrays else arrays["tree_mask"]).shape[1]
    count = min(max(int(arrays["node_count"][b]), 0), slots)
    if "node_parent" in arrays:
        parents = [int(p) for p in arrays["node_parent"][b, :count]]
    elif "next_token" in arrays:
        parents = _parents_of_links(arrays["next_token"][b], arrays["next_sibling"][b], count)
    else:
        parents = _parents_of_mask(arrays["tree_mask"][b], count)
    scores = _scores(arrays["topk_logprob"][b], parents) if "topk_logprob" in arrays else [None] * count
    for i in range(count):
        yield Node(
            index=i,
            parent=parents[i],
            token=int(arrays["node_token"][b, i]) if "node_token" in arrays else None,
            score=scores[i],
            predicts=int(arrays["target_predict"][b, i]) if "target_predict" in arrays else None,
        )


def _parents_of_links(next_token: AnyArray, next_sibling: AnyArray, count: int) -> list[int]:
    parents = [-1] * count
    seen = {0}
    for node in range(count):
        child = int(next_token[node])
        while 0 <= child < count and child not in seen:
            seen.add(child)
            parents[child] = node
            child = int(next_sibling[child])
    return parents


def _parents_of_mask(mask: AnyArray, count: int) -> list[int]:
    """The nearest earlier node that each node sees: its parent wherever the mask is that of a tree."""
    parents = []
    for node in range(count):
        words = [int(word) for word in mask[node]]
        seen = (j for j in range(node - 1, -1, -1) if words[j // 32] >> (j % 32) & 1)
        parents.append(next(seen, -1))
    return parents


def _scores(logprob: AnyArray, parents: Sequence[int]) -> list[float | None]:
    """Sums of log-probs by the contract: the k-th child of a node, in node order, has rank k."""
    scores: list[float | None] = [0.0] if parents else []
    depth, children = [0], [0] * len(parents)
    for parent in parents[1:]:
        rank, above = children[parent], scores[parent]
        children[parent] += 1
        depth.append(depth[parent] + 1)
        scores.append(None if above is None else above + float(logprob[depth[parent], rank]))
    return scores
