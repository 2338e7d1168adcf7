"""What the kernel is measured against: FlashInfer's MLA kernels, a cascade of them, and torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from attention_inputs import LATENT, SCALE, Problem, Shape

try:
    import flashinfer
except ImportError as problem:  # its optional parts fail in many ways; the others are still measured
    flashinfer = None
    MISSING = str(problem)
VERSION = flashinfer.__version__ if flashinfer is not None else "not there"


class FlashInfer:
    """One planned wrapper over the first `length` keys of every request."""

    def __init__(self, problem: Problem, backend: str, causal: bool, length: int) -> None:
        shape, page = problem.shape, problem.shape.page
        self.backend = backend
        buffer = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(buffer, backend=backend)
        pages = -(-length // page)
        tokens = torch.arange(shape.batch + 1, dtype=torch.int32, device="cuda") * shape.nodes
        starts = torch.arange(shape.batch + 1, dtype=torch.int32, device="cuda") * pages
        indices = problem.block_table[:, :pages].reshape(-1).contiguous()
        lengths = torch.full((shape.batch,), length, dtype=torch.int32, device="cuda")
        rope = problem.q.shape[-1] - LATENT
        self.wrapper.plan(tokens, starts, indices, lengths, shape.heads, LATENT, rope, page,
                          causal, SCALE, torch.bfloat16, torch.bfloat16)  # fmt: skip
        flat = problem.q.reshape(-1, shape.heads, problem.q.shape[-1])
        self.q_nope = flat[..., :LATENT].contiguous()
        self.q_rope = flat[..., LATENT:].contiguous()
        self.out = torch.empty_like(self.q_nope)
        self.lse = torch.empty(flat.shape[:2], device="cuda")

    def bind(self, latent: torch.Tensor, rope: torch.Tensor, lse: bool = False) -> Callable[[], None]:
        """A function that enqueues one call."""

        def call() -> None:
            self.wrapper.run(self.q_nope, self.q_rope, latent, rope, out=self.out,
                             lse=self.lse if lse else None, return_lse=lse)  # fmt: skip

        return call


def split_pool(kv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Latent and rope pools, as FlashInfer wants them."""
    return kv[..., :LATENT].contiguous(), kv[..., LATENT:].contiguous()


def cascade(problem: Problem, backend: str, latent: torch.Tensor, rope: torch.Tensor) -> Callable[[], None]:
    """Prefix without a mask by FlashInfer, masked tail and merge by torch: batch 1."""
    shape = problem.shape
    prefix = FlashInfer(problem, backend, False, shape.prefix)
    call_prefix = prefix.bind(latent, rope, lse=True)
    slot = torch.arange(shape.prefix, shape.prefix + shape.nodes, device="cuda")
    index = problem.block_table[0][slot // shape.page].long() * shape.page + slot % shape.page
    tail_latent = latent.view(-1, LATENT)[index]
    tail = torch.cat([tail_latent, rope.view(-1, rope.shape[-1])[index]], 1)
    hidden = torch.from_numpy(~problem.sees[0]).cuda()[None]
    q = problem.q[0].transpose(0, 1)  # heads, nodes, width

    def call() -> None:
        call_prefix()
        score = ((q @ tail.T).float() * SCALE).masked_fill(hidden, float("-inf"))
        lse = torch.logsumexp(score, -1)
        out = torch.exp(score - lse[..., None]).bfloat16() @ tail_latent
        # FlashInfer's own merge does not take 512 columns.
        share = torch.sigmoid(lse.T - prefix.lse * 0.6931471805599453)[..., None].bfloat16()
        torch.lerp(prefix.out, out.transpose(0, 1), share)

    return call


def sdpa(problem: Problem, kv: torch.Tensor) -> Callable[[], None]:
    """Torch scaled_dot_product_attention with a boolean mask over gathered keys: batch 1."""
    shape = problem.shape
    length = shape.prefix + shape.nodes
    index = torch.from_numpy(problem._flat(0, 0, length)).cuda()
    keys = kv.view(-1, kv.shape[-1])[index]
    q = problem.q[0].reshape(1, 1, -1, kv.shape[-1])
    visible = torch.ones(shape.nodes, length, dtype=torch.bool, device="cuda")
    visible[:, shape.prefix :] = torch.from_numpy(problem.sees[0]).cuda()
    mask = visible.repeat_interleave(shape.heads, 0)[None, None]
    k, v = keys[None, None], keys[None, None, :, :LATENT]

    def call() -> None:
        torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=SCALE)

    return call


def backends() -> tuple[list[str], dict[str, str]]:
    """FlashInfer's backends that run here, and why others do not."""
    if flashinfer is None:
        return [], {"FlashInfer": MISSING}
    running, refused = [], {}
    problem = Problem(Shape(1, 16, 4, 64))
    for backend in ("fa2", "fa3"):
        try:
            FlashInfer(problem, backend, True, 68).bind(*split_pool(problem.kv))()
            torch.cuda.synchronize()
            running.append(backend)
        except Exception as error:  # a compiler, a loader or the library itself may object
            refused[backend] = str(error).splitlines()[0]
    return running, refused
