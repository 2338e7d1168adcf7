"""FlashInfer's paged MLA attention: alone, where a tree is a chain, and under a masked tail for any tree.

FlashInfer has no tree mask. Its causal flag is the mask of a chain; the cascade uses it for the prefix, which
needs no mask, and adds the tail and the merge in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness.contract import MLA_DK, MLA_DV
from harness.peers.packages import gpu_of, need
from harness.peers.problem import Problem

_WORKSPACE = 256 << 20
_LN2 = 0.6931471805599453  # FlashInfer's lse is a base-2 logarithm


class _FlashInfer:
    """What the targets share: the package, the device and a planned wrapper."""

    memory, timing = "device", "event"
    backend = "fa2"

    def __init__(self) -> None:
        self._torch, self._flashinfer = need("torch"), need("flashinfer")
        self.device = gpu_of(self._torch)
        self._workspace = self._torch.empty(_WORKSPACE, dtype=self._torch.uint8, device=self.device)
        version = getattr(self._flashinfer, "__version__", "")
        self.description = f"FlashInfer {version} MLA {self.backend}, {type(self).__name__}".strip()

    def _problem(self, arguments: dict[str, Any]) -> Problem:
        problem = Problem(self._torch, self.device, arguments)
        if not problem.is_mla or (problem.key_width, problem.value_width) != (MLA_DK, MLA_DV):
            raise NotImplementedError("FlashInfer's MLA kernels take mla rows alone")
        return problem

    def _planned(
        self, problem: Problem, requests: list[int], lengths: list[int], causal: bool
    ) -> Callable[[], tuple[Any, Any]]:
        """A function that computes out [T,Hq,Dv] and natural lse [T,Hq] of the live nodes of ``requests``."""
        page_slots = problem.pool.shape[1]
        pages = [-(-length // page_slots) for length in lengths]
        used = [problem.table[b, :count] for b, count in zip(requests, pages, strict=True)]
        nodes = [problem.count[b] for b in requests]
        wrapper = self._flashinfer.mla.BatchMLAPagedAttentionWrapper(self._workspace, backend=self.backend)
        wrapper.plan(
            self._int32(np.cumsum([0, *nodes])), self._int32(np.cumsum([0, *pages])),
            self._int32(np.concatenate(used)), self._int32(np.array(lengths)),
            problem.heads, MLA_DV, MLA_DK - MLA_DV, page_slots, causal, problem.scale,
            self._torch.bfloat16, self._torch.bfloat16,
        )  # fmt: skip
        q = self._torch.cat([problem.q[b, : problem.count[b]] for b in requests])
        parts = [part[..., at].contiguous() for part in (q, problem.pool)
                 for at in (slice(MLA_DV), slice(MLA_DV, None))]  # fmt: skip

        def run() -> tuple[Any, Any]:
            out, lse = wrapper.run(*parts, return_lse=True)
            return out, lse * _LN2

        return run

    def _int32(self, values: Any) -> Any:
        return self._torch.from_numpy(np.asarray(values, np.int32)).to(self.device)


class FlashInferFa2(_FlashInfer):
    """The ``fa2`` kernel with its causal flag. Chains alone."""

    def verify_attn(self, **arguments: Any) -> dict[str, Any]:
        """Outputs of the contract."""
        problem = self._problem(arguments)
        for b in problem.live:
            if not (problem.sees(b) == np.tri(problem.count[b], dtype=np.bool_)).all():
                raise NotImplementedError("no tree mask: FlashInfer's causal flag serves chains alone")
        live = problem.live
        if not live:
            return problem.outputs(lambda: None, lse=True)
        run = self._planned(problem, live, [problem.prefix[b] + problem.count[b] for b in live], causal=True)

        def call() -> None:
            out, lse = run()
            at = 0
            for b in live:
                rows, at = slice(at, at + problem.count[b]), at + problem.count[b]
                problem.out[b, : problem.count[b]], problem.lse[b, : problem.count[b]] = out[rows], lse[rows]

        return problem.outputs(call, lse=True)


class FlashInferFa3(FlashInferFa2):
    """The ``fa3`` kernel (sm_90). Chains alone."""

    backend = "fa3"


class Cascade(_FlashInfer):
    """The prefix by FlashInfer without a mask, the tail with its mask and the merge in torch. Any tree."""

    def verify_attn(self, **arguments: Any) -> dict[str, Any]:
        """Outputs of the contract."""
        problem = self._problem(arguments)
        behind = [b for b in problem.live if problem.prefix[b]]
        run = self._planned(problem, behind, [problem.prefix[b] for b in behind], False) if behind else None
        tails = {b: self._tail(problem, b) for b in problem.live}

        def call() -> None:
            made = {b: tail() for b, tail in tails.items()}
            for b, (tail_out, tail_lse) in made.items():
                n = problem.count[b]
                problem.out[b, :n], problem.lse[b, :n] = tail_out, tail_lse
            if run is None:
                return
            out, lse = run()
            at = 0
            for b in behind:
                n, rows = problem.count[b], slice(at, at + problem.count[b])
                at += n
                tail_out, tail_lse = made[b]
                share = self._torch.sigmoid(tail_lse - lse[rows])[..., None]
                problem.out[b, :n] = self._torch.lerp(out[rows].float(), tail_out, share)
                problem.lse[b, :n] = self._torch.logaddexp(tail_lse, lse[rows])

        return problem.outputs(call, lse=True)

    def _tail(self, problem: Problem, b: int) -> Callable[[], tuple[Any, Any]]:
        """A function that computes float32 out [n,Hq,Dv] and lse [n,Hq] over the tail alone."""
        torch, sees = self._torch, problem.sees(b)
        some = np.flatnonzero(sees.any(axis=0))
        (keys,), (values,) = problem.keys_and_values(problem.rows(b, problem.prefix[b] + some))
        mask = torch.from_numpy(sees[:, some]).to(self.device)[:, None]
        q = problem.q[b, : problem.count[b]].float()  # torch rounds what it makes of bf16 to bf16
        keys, values = keys.float(), values.float()

        def run() -> tuple[Any, Any]:
            scores = q @ keys.T * problem.scale
            scores = scores.masked_fill(~mask, float("-inf"))
            lse = torch.logsumexp(scores, -1)
            weights = torch.nan_to_num(torch.exp(scores - lse[..., None]))
            return weights @ values, lse

        return run
