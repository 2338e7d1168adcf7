"""The tree of a failed case: nodes, expected path, actual path, of the request that went wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.case import AnyArray, Case
from harness.results import Mismatch, TreePicture

_DRAWN = ("tree_build", "tree_accept", "greedy_step")


def tree_picture(case: Case, wrong: Mismatch, outputs: Mapping[str, AnyArray]) -> TreePicture | None:
    """The picture, or None where the kernel has no tree or the wrong element belongs to no request."""
    if case.kernel not in _DRAWN or wrong.array == "kv":
        return None
    step = case.kernel == "greedy_step"
    place = wrong.index[:2] if step else wrong.index[:1]
    request = place[-1]
    inputs = _of_request(case.inputs, place)
    expected = _of_request(case.expected, place)
    actual = _of_request(outputs, place)
    if case.kernel == "tree_accept":
        count = _count(inputs["node_count"], inputs["node_token"])
        parent = _parents(inputs["next_token"], inputs["next_sibling"], count)
        token = inputs["node_token"][:count]
        paths = _accepted(expected), _accepted(actual)
    else:
        count = _count(expected["node_count"], expected["node_token"])
        parent, token = expected["node_parent"][:count], expected["node_token"][:count]
        if wrong.array in ("accept_index", "accept_len", "bonus_token", "out_token", "finished", "new_len"):
            paths = _accepted(expected), _accepted(actual)
        else:
            node = wrong.index[len(place)] if len(wrong.index) > len(place) else 0
            paths = _ancestors(expected["node_parent"], node), _ancestors(actual["node_parent"], node)
    if count == 0:
        return None
    return TreePicture(request, _numbers(parent), _numbers(token), *paths)


def _of_request(values: Mapping[str, object], place: tuple[int, ...]) -> dict[str, AnyArray]:
    whole = ("kv", "stop_token", "block_table", "tail", "head", "head_bias", "head_token")
    return {
        name: value[place]
        for name, value in values.items()
        if name not in whole and isinstance(value, np.ndarray) and value.ndim >= len(place)
    }


def _count(count: AnyArray, tokens: AnyArray) -> int:
    return int(np.clip(count, 0, tokens.shape[0]))


def _parents(next_token: AnyArray, next_sibling: AnyArray, count: int) -> AnyArray:
    """Parents by the links; -1 for the root, for what no link reaches, and where links run in a ring."""
    parent = np.full(count, -1)
    for node in range(count):
        child, left = int(next_token[node]), count
        while 0 <= child < count and left:
            parent[child] = node if child > node else parent[child]
            child, left = int(next_sibling[child]), left - 1
    return parent


def _accepted(values: Mapping[str, AnyArray]) -> tuple[int, ...]:
    path = values["accept_index"]
    return _numbers(path[path >= 0])


def _ancestors(parent: AnyArray, node: int) -> tuple[int, ...]:
    path: list[int] = []
    while 0 <= node < parent.shape[0] and node not in path:
        path.append(node)
        node = int(parent[node])
    return tuple(reversed(path))


def _numbers(values: AnyArray) -> tuple[int, ...]:
    return tuple(int(v) for v in values)
