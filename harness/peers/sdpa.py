"""torch's scaled_dot_product_attention with an explicit boolean mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.peers.packages import need
from harness.peers.problem import Problem

MAX_SCORES = 1 << 31  # of one request: without a fused kernel for the mask, torch holds them all


class Sdpa:
    """Keys are gathered, then each request is one call: any tree, mla and gqa, but no lse."""

    absent = ("lse",)

    def __init__(self) -> None:
        self._torch = need("torch")
        self._device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self.memory = "device" if self._device == "cuda" else "host"
        self.timing = "event" if self._device == "cuda" else "host clock"
        self.description = f"torch {self._torch.__version__} scaled_dot_product_attention on {self._device}"

    def verify_attn(self, **arguments: Any) -> dict[str, Any]:
        """Outputs of the contract but for ``lse``."""
        problem = Problem(self._torch, self._device, arguments)
        for b in problem.live:
            scores = problem.heads * problem.count[b] * (problem.prefix[b] + problem.count[b])
            if scores > MAX_SCORES:
                raise NotImplementedError(f"{scores} scores in request {b}, more than {MAX_SCORES}")
        prepared = [self._request(problem, b) for b in problem.live]

        def call() -> None:
            for b, q, keys, values, mask in prepared:
                out = self._torch.nn.functional.scaled_dot_product_attention(
                    q, keys, values, attn_mask=mask, scale=problem.scale
                )
                problem.out[b, : problem.count[b]] = self._torch.where(
                    mask.any(dim=-1)[:, None, None], out.transpose(0, 1), 0.0
                )

        return problem.outputs(call, lse=False)

    def _request(self, problem: Problem, b: int) -> tuple[int, Any, Any, Any, Any]:
        """Query [Hq,n,Dk], keys and values [Hq,k,..] of the slots that any node sees, mask bool [n,k]."""
        sees, prefix = problem.sees(b), problem.prefix[b]
        tail = np.flatnonzero(sees.any(axis=0))
        rows = problem.rows(b, np.concatenate([np.arange(prefix), prefix + tail]))
        share = problem.heads // problem.groups
        keys, values = (part.repeat_interleave(share, 0) for part in problem.keys_and_values(rows))
        mask = np.concatenate([np.ones((len(sees), prefix), np.bool_), sees[:, tail]], axis=1)
        q = problem.q[b, : problem.count[b]].transpose(0, 1)
        return b, q, keys, values, self._torch.from_numpy(mask).to(problem.device)
