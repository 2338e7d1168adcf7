"""The KV pool of a greedy_step run: one array per layer, unused rows hostile, tail rows written by step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.case import AnyArray
from harness.memory import hostile
from harness.memory.buffers import Arena, Memory
from harness.shapes import Dims
from harness.targets.staging import layer_names


class Pool:
    """``kv`` [Y,G,S,R] bf16 in a target's memory, for all steps of one run."""

    def __init__(
        self, memory: Memory, inputs: Mapping[str, AnyArray], dims: Dims, layer: int, round_index: int
    ) -> None:
        self._start, self._table, self._dims = inputs["kv"], inputs["block_table"], dims
        self._names = layer_names(dims["Y"])
        each = 2 * dims["G"] * dims["S"] * dims["R"]
        self.arena = Arena(memory, dict.fromkeys(self._names, each), round_index)
        self._dead = hostile.dead_step_rows(inputs, dims["N"], layer)
        self._hostile = hostile.pattern(round_index, dims["R"])
        for name, rows, dead in zip(self._names, self._start, self._dead, strict=True):
            view = self.arena.view(name, np.uint16, (-1, dims["R"]))
            view[...] = rows.reshape(view.shape)
            view[dead] = self._hostile
        self.arena.seal()
        self.addresses = [self.arena.address(name) for name in self._names]
        self.attention_address = self.addresses[layer]

    def write_tail(self, tail: AnyArray, root_token: AnyArray, prefix_len: AnyArray) -> None:
        """Rows ``tail`` [Y,B,N,R] of the active requests go to slots prefix_len .. in every layer."""
        page_slots, row_bytes = self._dims["S"], 2 * self._dims["R"]
        pieces: list[tuple[str, int, AnyArray]] = []
        for b in np.flatnonzero(root_token != -1).tolist():
            start, pages = int(prefix_len[b]), self._table[b]
            slot, end = start, min(start + self._dims["N"], self._dims["M"] * page_slots)
            while slot < end:  # the rows of a page lie side by side: one piece
                page, until = int(pages[slot // page_slots]), min(end, (slot // page_slots + 1) * page_slots)
                if 0 <= page < self._dims["G"]:
                    offset = (page * page_slots + slot % page_slots) * row_bytes
                    rows = tail[:, b, slot - start : until - start]
                    pieces += [(name, offset, rows[y]) for y, name in enumerate(self._names)]
                slot = until
        self.arena.poke(pieces)

    def contents(self) -> AnyArray:
        """The pool as fetched, with what was hostile given back its own bytes.

        A hostile row that the target changed keeps a difference: x ^ hostile ^ own is own only where x is
        hostile.
        """
        dims = self._dims
        layers = []
        for name, start, dead in zip(self._names, self._start, self._dead, strict=True):
            rows = self.arena.read(name, np.uint16, (-1, dims["R"])).copy()
            rows[dead] ^= self._hostile ^ start.reshape(rows.shape)[dead]
            layers.append(rows.reshape(dims["G"], dims["S"], dims["R"]))
        return np.stack(layers)
