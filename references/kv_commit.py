"""kv_commit: moves the accepted tail rows to the front of the tail, in every layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import Dims, Outputs, pool_rows, whole


def kv_commit(
    *,
    kv: NDArray[Any],
    block_table: NDArray[np.int32],
    prefix_len: NDArray[np.int32],
    accept_index: NDArray[np.int32],
    accept_len: NDArray[np.int32],
) -> Outputs:
    """Give slot prefix_len + i the old row of slot prefix_len + accept_index[i], i = 0..accept_len.

    In: ``kv`` [Y,G,S,R] of any dtype (not changed), ``block_table`` int32 [B,M], ``prefix_len`` int32 [B],
    ``accept_index`` int32 [B,A] (0 first, then strictly rising; entries past accept_len are not read),
    ``accept_len`` int32 [B], -1 for an inactive request, which moves nothing. Out: ``kv``, a copy in which
    every other byte is as before, and ``new_len`` int32 [B] = prefix_len + accept_len + 1.

    ValueError: another shape or dtype, accept_len outside -1..A-1, an accept_index that does not start at
    0 or rise, a negative prefix_len or an unmapped slot of an active request.
    """
    dims = Dims()
    dims.take("kv", kv, None, "Y G S R")
    dims.take("block_table", block_table, np.int32, "B M")
    dims.take("prefix_len", prefix_len, np.int32, "B")
    dims.take("accept_index", accept_index, np.int32, "B A")
    dims.take("accept_len", accept_len, np.int32, "B")
    layers, pages, page_slots, width = kv.shape

    old = kv.reshape(layers, pages * page_slots, width)
    new = old.copy()
    for b in range(dims["B"]):
        kept = 1 + whole(f"accept_len[{b}]", accept_len[b], -1, dims["A"] - 1)
        if kept == 0:
            continue
        prefix = whole(f"prefix_len[{b}]", prefix_len[b], 0)
        chosen = accept_index[b, :kept].astype(np.int64)
        if chosen[0] != 0 or (np.diff(chosen) <= 0).any():
            raise ValueError(f"accept_index[{b}]: got {chosen.tolist()}, want 0 and then rising slots")
        source = pool_rows(block_table, b, prefix + chosen, pages, page_slots)
        target = pool_rows(block_table, b, prefix + np.arange(kept), pages, page_slots)
        new[:, target] = old[:, source]
    new_len = (prefix_len.astype(np.int64) + accept_len + 1).astype(np.int32)
    return {"kv": new.reshape(kv.shape), "new_len": new_len}
