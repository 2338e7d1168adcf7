"""A catalogue of a few quick families, for tests of the generator. Importable in its worker processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.cases.base import Draft, Family, Params
from harness.draw import Draw

SMALL = __name__  # as the generator is told of it


def _plan(suite: str) -> Iterator[Params]:
    yield from ({"N": nodes} for nodes in range(2, 2 + {"smoke": 5, "standard": 30, "full": 40}[suite]))


def _accept(params: Params, draw: Draw) -> Draft | None:
    nodes = int(params["N"])
    if draw.integer(0, 3) == 0:
        return None  # this seed cannot serve
    child, sibling = np.full((1, nodes), -1, np.int32), np.full((1, nodes), -1, np.int32)
    child[0, :-1] = np.arange(1, nodes)
    token = draw.below(9, (1, nodes)).astype(np.int32)
    inputs = {
        "node_token": token,
        "next_token": child,
        "next_sibling": sibling,
        "target_predict": np.roll(token, -1, axis=1),
        "node_count": np.array([nodes], np.int32),
        "stop_token": draw.below(9, nodes % 3).astype(np.int32),
        "token_limit": np.array([2**31 - 1], np.int32),
    }
    return Draft(inputs, {"depth_limit": 6}, ("chain",))


def _attention(params: Params, draw: Draw) -> Draft:
    nodes = int(params["N"])
    draw_bits = draw.below(2**16, (1, nodes, 2, 8)).astype(np.uint16) & np.uint16(0xBFFF)
    rows = draw.below(2**16, (nodes + 1, 4, 16)).astype(np.uint16) & np.uint16(0xBFFF)
    inputs = {
        "q": draw_bits,
        "kv": rows,
        "block_table": draw.permutation(nodes + 1).astype(np.int32)[None],
        "prefix_len": np.array([3 * nodes], np.int32),
        "node_count": np.array([nodes], np.int32),
        "tree_mask": np.full((1, nodes, (nodes + 31) // 32), 0x7FFF, np.uint32),
    }
    return Draft(inputs, {"Hkv": 1, "Dv": 8, "scale": 0.25}, ("any_bits",), notes={"proved": 1.5})


FAMILIES = (
    Family("chains", "tree_accept", "chains", _plan, _accept),
    Family("bits", "verify_attn", "any bits", _plan, _attention),
)
