"""The inputs of verify_attn as torch tensors, and the device that they are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.case import AnyArray
from references import unpack_mask


class Problem:
    """One call: ``q`` bf16 [B,N,Hq,Dk] and ``pool`` bf16 [G,S,R] on ``device``, the rest as it came.

    ``out`` bf16 [B,N,Hq,Dv] and ``lse`` float32 [B,N,Hq] start as rows that see nothing end: 0 and -inf.
    """

    def __init__(self, torch: Any, device: str, arguments: dict[str, Any]) -> None:
        self.torch, self.device = torch, device
        self.q, self.pool = self._bf16(arguments["q"]), self._bf16(arguments["kv"])
        self.table: AnyArray = arguments["block_table"]
        self.prefix: list[int] = arguments["prefix_len"].tolist()
        self.count: list[int] = arguments["node_count"].tolist()
        self._mask: AnyArray = arguments["tree_mask"]
        self.groups, self.value_width = int(arguments["Hkv"]), int(arguments["Dv"])
        self.scale = float(arguments["scale"])
        self.heads, self.key_width = self.q.shape[2:]
        self.out = torch.zeros(*self.q.shape[:3], self.value_width, dtype=torch.bfloat16, device=device)
        self.lse = torch.full(self.q.shape[:3], float("-inf"), device=device)

    @property
    def is_mla(self) -> bool:
        """True where the value is the first part of the key."""
        return bool(self.pool.shape[-1] == self.key_width)

    @property
    def live(self) -> list[int]:
        """Requests that have nodes."""
        return [b for b, count in enumerate(self.count) if count]

    def sees(self, b: int) -> npt.NDArray[np.bool_]:
        """What the live nodes of a request see of each other: bool [n,n]."""
        return unpack_mask(self._mask[b, : self.count[b]], self.count[b])

    def rows(self, b: int, slots: AnyArray) -> Any:
        """Pool rows [k,R] of some slots of a request."""
        page_slots = self.pool.shape[1]
        at = self.table[b, slots // page_slots].astype(np.int64) * page_slots + slots % page_slots
        return self.pool.view(-1, self.pool.shape[-1])[self.torch.from_numpy(at).to(self.device)]

    def keys_and_values(self, rows: Any) -> tuple[Any, Any]:
        """Keys [Hkv,k,Dk] and values [Hkv,k,Dv] of pool rows [k,R]."""
        groups, dk, dv = self.groups, self.key_width, self.value_width
        keys = rows[:, : groups * dk].view(-1, groups, dk).transpose(0, 1)
        if self.is_mla:
            return keys, keys[..., :dv]
        return keys, rows[:, groups * dk :].view(-1, groups, dv).transpose(0, 1)

    def outputs(self, call: Callable[[], None], lse: bool) -> dict[str, Any]:
        """Run ``call``, which fills ``out`` and ``lse``; the target's answer, with the time that it took."""
        if self.device == "cpu":
            call()
            made: dict[str, Any] = {"out": self.out}
        else:
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            made = {"out": self.out, "seconds": start.elapsed_time(end) / 1e3}
        return {**made, "lse": self.lse} if lse else made

    def _bf16(self, bits: AnyArray) -> Any:
        return self.torch.from_numpy(bits.view(np.int16)).to(self.device).view(self.torch.bfloat16)
