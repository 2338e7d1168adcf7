"""The expected outputs of some rows of a large verify_attn case, by the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import references
from harness.case import AnyArray, Expected, Sampled, Value, materialize, row_values
from harness.contract import mask_words
from harness.shapes import shape_of, values_of

Places = npt.NDArray[np.int64]
_SAMPLED = ("out", "out_m", "lse", "lse_d")


def sampled_attention(
    inputs: Mapping[str, Value], scalars: Mapping[str, int | float], rows: Places
) -> dict[str, Expected]:
    """Expected outputs of ``rows`` (rising places in [B*N*Hq]), and ``visible`` of all nodes.

    The reference is given a smaller problem, in which each row is a node with one head. Rows over one KV head
    do not depend on each other, so a row keeps its query, its mask and its answer. ValueError for several
    KV heads.
    """
    if scalars["Hkv"] != 1:
        raise ValueError("rows of several KV heads cannot be sampled")
    plain = {name: materialize(value) for name, value in inputs.items() if name != "q"}
    shape = shape_of(inputs["q"])[:3]
    request, node, _ = np.unravel_index(rows, shape)
    place = np.arange(len(rows)) - np.searchsorted(request, request)  # in its request
    live = np.arange(shape[1]) < plain["node_count"][:, None]
    sees = references.unpack_mask(plain["tree_mask"], shape[1]) & live[:, :, None] & live[:, None, :]
    slots = max(shape[1], int(place.max()) + 1)
    small: dict[str, Any] = {
        **plain,
        "q": _spread(shape[0], slots, request, place, row_values(inputs["q"], rows)[:, None]),
        "node_count": np.full(shape[0], slots, np.int32),
        "tree_mask": _spread(shape[0], slots, request, place, _words(sees[request, node], slots)),
        "rows": _spread(shape[0], slots, request, place, live[request, node]),
    }
    small |= values_of(scalars)
    found = references.verify_attn(**small)
    expected: dict[str, Expected] = {}
    for name in _SAMPLED:
        values = found[name][request, place, 0].astype(np.float32)
        expected[name] = Sampled((*shape, *values.shape[1:]), rows, values)
    prefix = np.where(live, plain["prefix_len"][:, None], 0)
    return {**expected, "visible": (sees.sum(axis=-1) + prefix).astype(np.int32)}


def _spread(batch: int, slots: int, request: Places, place: Places, values: AnyArray) -> AnyArray:
    """Zeros [batch,slots,..] with ``values`` [n,..] at (request, place)."""
    array: AnyArray = np.zeros((batch, slots, *values.shape[1:]), values.dtype)
    array[request, place] = values
    return array


def _words(sees: npt.NDArray[np.bool_], nodes: int) -> AnyArray:
    """Mask words uint32 [n,W] of ``sees`` bool [n,..] for that many nodes."""
    bits = np.zeros((len(sees), 32 * mask_words(nodes)), np.bool_)
    bits[:, : sees.shape[1]] = sees
    return np.packbits(bits, axis=-1, bitorder="little").view("<u4").astype(np.uint32)
