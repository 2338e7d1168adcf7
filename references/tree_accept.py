"""tree_accept: the greedy walk of a draft tree against the target's predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._checks import Dims, Outputs, whole


def tree_accept(
    *,
    node_token: NDArray[np.int32],
    next_token: NDArray[np.int32],
    next_sibling: NDArray[np.int32],
    target_predict: NDArray[np.int32],
    node_count: NDArray[np.int32],
    stop_token: NDArray[np.int32],
    token_limit: NDArray[np.int32],
    depth_limit: int,
) -> Outputs:
    """Accept the longest path that the target agrees with, and emit its tokens.

    In: ``node_token``, ``next_token``, ``next_sibling``, ``target_predict`` int32 [B,N], ``node_count``,
    ``token_limit`` int32 [B], ``stop_token`` int32 [T]. With A = depth_limit + 1, out: ``accept_index``,
    ``out_token`` int32 [B,A], ``accept_len``, ``bonus_token``, ``finished``, ``accept_status`` int32 [B].

    From the root, step to the first child in link order whose token is the target's prediction, at most
    ``depth_limit`` times; -1 matches nothing. The tokens of the path, then the prediction after it (the
    bonus, if not -1), are emitted until a stop token or ``token_limit`` tokens are out. Then ``finished``
    is 1 and the path is cut to the drafts that were emitted, so ``accept_len`` counts emitted drafts.

    Example: path tokens 5 6 7, bonus 8. Limit 4 or more than 4: accept_len 3, bonus 8, finished at 4 only.
    Limit 3: accept_len 3, bonus -1, finished. Limit 2 or stop token 6: accept_index [0, a, b, -1..],
    accept_len 2, out_token [5, 6, -1..], bonus -1, finished. Limit 0: accept_index [0, -1..],
    accept_len 0, out_token all -1, bonus -1, finished. A bonus that is itself a stop token is emitted.
    A bonus of -1 takes no part of the limit and does not finish a request.

    node_count 0 is an inactive request: accept_len -1, all else -1, finished and status 0. With
    node_count outside 0..N, or a link below node_count that is neither -1 nor a larger live node, or a
    node that two links name: ``accept_status`` 1, accept_index [0, -1..], accept_len 0, bonus and
    out_token -1, finished 0.

    ValueError: another shape or dtype, a negative depth_limit, a negative token_limit where node_count
    is not 0.
    """
    dims = Dims()
    for name, value in (
        ("node_token", node_token),
        ("next_token", next_token),
        ("next_sibling", next_sibling),
        ("target_predict", target_predict),
    ):
        dims.take(name, value, np.int32, "B N")
    dims.take("node_count", node_count, np.int32, "B")
    dims.take("stop_token", stop_token, np.int32, "T")
    dims.take("token_limit", token_limit, np.int32, "B")
    depth_limit = whole("depth_limit", depth_limit, 0)
    batch, nodes = node_token.shape
    stops = set(stop_token.tolist())

    accept_index, out_token = np.full((2, batch, depth_limit + 1), -1, np.int32)
    accept_len, bonus_token = np.full((2, batch), -1, np.int32)
    finished, accept_status = np.zeros((2, batch), np.int32)
    for b, count in enumerate(node_count.tolist()):
        if count == 0:
            continue
        limit = whole(f"token_limit[{b}]", token_limit[b], 0)
        accept_index[b, 0] = 0
        accept_len[b] = 0
        child, sibling = next_token[b].tolist(), next_sibling[b].tolist()
        if not 0 < count <= nodes or not _links_good(child[:count], sibling[:count]):
            accept_status[b] = 1
            continue
        token = node_token[b].tolist()
        path, bonus = _walk(token, child, sibling, target_predict[b].tolist(), depth_limit)
        tokens = [token[i] for i in path] + ([bonus] if bonus != -1 else [])
        emitted, done = _emit(tokens, stops, limit)
        drafts = min(len(emitted), len(path))
        accept_len[b] = drafts
        accept_index[b, 1 : drafts + 1] = path[:drafts]
        out_token[b, : len(emitted)] = emitted
        if len(emitted) > len(path):
            bonus_token[b] = bonus
        finished[b] = done
    return {
        "accept_index": accept_index,
        "accept_len": accept_len,
        "bonus_token": bonus_token,
        "out_token": out_token,
        "finished": finished,
        "accept_status": accept_status,
    }


def _links_good(child: list[int], sibling: list[int]) -> bool:
    """True when every link is -1 or a larger live node, and no node is named twice."""
    named: set[int] = set()
    for row in (child, sibling):
        for node, to in enumerate(row):
            if to != -1:
                if not node < to < len(child) or to in named:
                    return False
                named.add(to)
    return True


def _walk(
    token: list[int], child: list[int], sibling: list[int], predict: list[int], limit: int
) -> tuple[list[int], int]:
    """Nodes accepted after the root, and the target's prediction after the last of them."""
    path: list[int] = []
    at = 0
    while len(path) < limit:
        step = child[at]
        while step != -1 and (token[step] == -1 or token[step] != predict[at]):
            step = sibling[step]
        if step == -1:
            break
        path.append(step)
        at = step
    return path, predict[at]


def _emit(tokens: list[int], stops: set[int], limit: int) -> tuple[list[int], bool]:
    """The tokens that go out, and whether a stop token or the limit ended the request."""
    out: list[int] = []
    for token in tokens:
        if len(out) == limit:
            break
        out.append(token)
        if token in stops:
            return out, True
    return out, len(out) == limit
