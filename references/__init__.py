"""The oracles of the draft-tree kernels: NumPy only, one file per kernel, no I/O.

Every function takes the contract's inputs by name and returns a dict of its outputs. Arrays of bfloat16
are uint16 bits on the way in (``bf16_to_float64``, ``float_to_bf16``); attention comes back as float64.
"""

from .bf16 import bf16_to_float32, bf16_to_float64, float_to_bf16
from .greedy_step import greedy_step, next_state
from .kv_commit import kv_commit
from .planted import planted_embed, planted_head, planted_values
from .tree_accept import tree_accept
from .tree_build import tree_build
from .verify_attn import unpack_mask, verify_attn

__all__ = [
    "bf16_to_float32",
    "bf16_to_float64",
    "float_to_bf16",
    "greedy_step",
    "kv_commit",
    "next_state",
    "planted_embed",
    "planted_head",
    "planted_values",
    "tree_accept",
    "tree_build",
    "unpack_mask",
    "verify_attn",
]
