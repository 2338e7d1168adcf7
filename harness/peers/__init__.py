"""Attention of public packages as Python targets: ``--target harness.peers:Sdpa`` and its neighbours.

They serve verify_attn alone, and of it what their package can: each refuses the other cases, which then count
as UNSUPPORTED. A package that is missing is named, with its remedy, when the target is opened.
"""

from harness.peers.flashinfer_mla import Cascade, FlashInferFa2, FlashInferFa3
from harness.peers.sdpa import Sdpa

__all__ = ["Cascade", "FlashInferFa2", "FlashInferFa3", "Sdpa"]
