"""The contract, as data: kernels, arrays, scalars, limits, and the C structs that carry them.

This module is the only source. ``docs/contract.md`` (for people) and ``cuda/include/ddtree.h`` (for C)
say the same and are held to it by ``tests/targets/test_contract.py``. It imports nothing of the package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

CONTRACT_VERSION = (1, 0)
ABI_VERSION = 1

DType = Literal["i32", "u32", "f32", "bf16", "u8"]
Role = Literal["in", "out", "inout"]
CType = Literal["pointer", "u64", "i64", "i32", "u32", "f32", "hook", "text"]

NUMPY_DTYPES: dict[DType, np.dtype[np.generic]] = {
    "i32": np.dtype("<i4"),
    "u32": np.dtype("<u4"),
    "f32": np.dtype("<f4"),
    "bf16": np.dtype("<u2"),  # raw bits: NumPy has no bfloat16
    "u8": np.dtype("u1"),
}

# Limits of contract v1 (inclusive). A target may declare smaller ones.
MAX_DEPTH = 32
MAX_CANDIDATES = 1024
MAX_NODES = 1025
MAX_PAGE_SLOTS = 256
NO_LIMIT = 2**31 - 1  # token_limit that never ends a request


@dataclass(frozen=True)
class Array:
    """One array of a kernel. ``dims`` name its axes; ``steps`` marks a leading axis U (greedy_step)."""

    name: str
    dtype: DType
    dims: tuple[str, ...]
    role: Role
    doc: str

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The little-endian NumPy dtype of the stored bits."""
        return NUMPY_DTYPES[self.dtype]


@dataclass(frozen=True)
class Scalar:
    """One scalar passed by name."""

    name: str
    dtype: Literal["i32", "f32"]
    doc: str


@dataclass(frozen=True)
class Field:
    """One member of a C struct, in order."""

    name: str
    ctype: CType


@dataclass(frozen=True)
class Struct:
    """A C struct of ``ddtree.h``; its first member is always ``struct_bytes``."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Kernel:
    """One kernel of the contract: arrays in ABI order, scalars, and the struct that carries them."""

    name: str
    kernel_id: int
    arrays: tuple[Array, ...]
    scalars: tuple[Scalar, ...]
    struct: Struct
    doc: str

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Arrays that are read, inout ones among them."""
        return tuple(a for a in self.arrays if a.role != "out")

    @property
    def outputs(self) -> tuple[Array, ...]:
        """Arrays that are written, inout ones among them."""
        return tuple(a for a in self.arrays if a.role != "in")

    @property
    def symbol(self) -> str:
        """The C function's name."""
        return f"ddtree_{self.name}"

    def array(self, name: str) -> Array:
        """The array called ``name``; KeyError if the kernel has none."""
        for array in self.arrays:
            if array.name == name:
                return array
        raise KeyError(f"{self.name} has no array {name!r}")


def _struct(name: str, **fields: CType) -> Struct:
    return Struct(name, (Field("struct_bytes", "u64"), *(Field(k, v) for k, v in fields.items())))


_P: CType = "pointer"

TREE_BUILD = Kernel(
    "tree_build",
    0,
    arrays=(
        Array("topk_logprob", "f32", ("B", "L", "K"), "in", "log-probs per depth, sorted descending, <= 0"),
        Array("topk_token", "i32", ("B", "L", "K"), "in", "token id of each candidate"),
        Array("root_token", "i32", ("B",), "in", "token of slot 0; -1 marks an inactive request"),
        Array("prefix_len", "i32", ("B",), "in", "committed KV rows before the tree"),
        Array("node_token", "i32", ("B", "N"), "out", "token of each node"),
        Array("node_parent", "i32", ("B", "N"), "out", "parent slot, -1 for the root"),
        Array("node_depth", "i32", ("B", "N"), "out", "depth, 0 for the root"),
        Array("position", "i32", ("B", "N"), "out", "prefix_len + depth"),
        Array("next_token", "i32", ("B", "N"), "out", "first child in node order, -1 if none"),
        Array("next_sibling", "i32", ("B", "N"), "out", "next child of the same parent, -1 if none"),
        Array("tree_mask", "u32", ("B", "N", "W"), "out", "bit j of row i: j is i or an ancestor of i"),
        Array("node_count", "i32", ("B",), "out", "live nodes, root included; 0 for an inactive request"),
        Array("tree_status", "i32", ("B",), "out", "0 good, 1 bad rows (root-only tree)"),
    ),
    scalars=(Scalar("budget", "i32", "nodes wanted besides the root; N = budget + 1"),),
    struct=_struct(
        "ddtree_tree_build_args",
        topk_logprob=_P, topk_token=_P, root_token=_P, prefix_len=_P,
        node_token=_P, node_parent=_P, node_depth=_P, position=_P, next_token=_P, next_sibling=_P,
        tree_mask=_P, node_count=_P, tree_status=_P,
        B="i32", L="i32", K="i32", N="i32", W="i32", budget="i32",
    ),
    doc="Best-first draft tree from per-depth candidates.",
)  # fmt: skip

VERIFY_ATTN = Kernel(
    "verify_attn",
    1,
    arrays=(
        Array("q", "bf16", ("B", "N", "Hq", "Dk"), "in", "queries; rows at or past node_count hold anything"),
        Array("kv", "bf16", ("G", "S", "R"), "in", "paged pool of KV rows"),
        Array("block_table", "i32", ("B", "M"), "in", "page of each S slots of a request"),
        Array("prefix_len", "i32", ("B",), "in", "rows every live node sees"),
        Array("node_count", "i32", ("B",), "in", "live nodes"),
        Array("tree_mask", "u32", ("B", "N", "W"), "in", "tail rows each node sees"),
        Array("out", "bf16", ("B", "N", "Hq", "Dv"), "out", "attention output; 0 where nothing is seen"),
        Array("lse", "f32", ("B", "N", "Hq"), "out", "natural log-sum-exp; -inf where nothing is seen"),
    ),
    scalars=(
        Scalar("Hkv", "i32", "KV heads; query head h reads KV head h // (Hq / Hkv)"),
        Scalar("Dv", "i32", "value width; R == Dk means mla rows (Hkv 1), else R = Hkv * (Dk + Dv)"),
        Scalar("scale", "f32", "softmax scale"),
    ),
    struct=_struct(
        "ddtree_verify_attn_args",
        q=_P, key=_P, rope=_P, value=_P, block_table=_P, prefix_len=_P, node_count=_P, tree_mask=_P,
        out=_P, lse=_P,
        key_page_stride="i64", key_slot_stride="i64", key_head_stride="i64",
        rope_page_stride="i64", rope_slot_stride="i64", rope_head_stride="i64",
        value_page_stride="i64", value_slot_stride="i64", value_head_stride="i64",
        B="i32", N="i32", W="i32", Hq="i32", Hkv="i32", Dk="i32", Dr="i32", Dv="i32",
        G="i32", S="i32", M="i32", scale="f32",
    ),
    doc="Attention of every tree node over the paged prefix and its own ancestors.",
)  # fmt: skip

TREE_ACCEPT = Kernel(
    "tree_accept",
    2,
    arrays=(
        Array("node_token", "i32", ("B", "N"), "in", "token of each node"),
        Array("next_token", "i32", ("B", "N"), "in", "first child link"),
        Array("next_sibling", "i32", ("B", "N"), "in", "sibling link"),
        Array("target_predict", "i32", ("B", "N"), "in", "the target's argmax after each node"),
        Array("node_count", "i32", ("B",), "in", "live nodes"),
        Array("stop_token", "i32", ("T",), "in", "tokens that end a request"),
        Array("token_limit", "i32", ("B",), "in", "tokens that may still be emitted"),
        Array("accept_index", "i32", ("B", "A"), "out", "slots on the accepted path, root first, then -1"),
        Array("accept_len", "i32", ("B",), "out", "accepted drafts; -1 for an inactive request"),
        Array("bonus_token", "i32", ("B",), "out", "token after the last accepted node, -1 if not emitted"),
        Array("out_token", "i32", ("B", "A"), "out", "emitted tokens, then -1"),
        Array("finished", "i32", ("B",), "out", "1 when a stop token or the limit ended the request"),
        Array("accept_status", "i32", ("B",), "out", "0 good, 1 malformed links or node_count"),
    ),
    scalars=(Scalar("depth_limit", "i32", "most drafts accepted; A = depth_limit + 1"),),
    struct=_struct(
        "ddtree_tree_accept_args",
        node_token=_P, next_token=_P, next_sibling=_P, target_predict=_P, node_count=_P,
        stop_token=_P, token_limit=_P,
        accept_index=_P, accept_len=_P, bonus_token=_P, out_token=_P, finished=_P, accept_status=_P,
        B="i32", N="i32", T="i32", depth_limit="i32",
    ),
    doc="Greedy walk of the tree against the target's predictions.",
)  # fmt: skip

KV_COMMIT = Kernel(
    "kv_commit",
    3,
    arrays=(
        Array("kv", "u8", ("Y", "G", "S", "R"), "inout", "paged pools, R bytes a row, any element type"),
        Array("block_table", "i32", ("B", "M"), "in", "page of each S slots of a request"),
        Array("prefix_len", "i32", ("B",), "in", "committed rows"),
        Array("accept_index", "i32", ("B", "A"), "in", "accepted slots, rising from 0"),
        Array("accept_len", "i32", ("B",), "in", "accepted drafts; -1 for an inactive request"),
        Array("new_len", "i32", ("B",), "out", "prefix_len + accept_len + 1"),
    ),
    scalars=(),
    struct=_struct(
        "ddtree_kv_commit_args",
        layer_base=_P, block_table=_P, prefix_len=_P, accept_index=_P, accept_len=_P, new_len=_P,
        page_bytes="i64", slot_bytes="i64", row_bytes="i64",
        B="i32", A="i32", M="i32", S="i32", Y="i32", reserved="i32",
    ),
    doc="Moves the accepted tail rows to the front of the tail, in every layer.",
)  # fmt: skip


def _per_step(kernel: Kernel, *names: str) -> tuple[Array, ...]:
    chosen = [kernel.array(n) for n in names] if names else [a for a in kernel.arrays if a.role == "out"]
    return tuple(Array(a.name, a.dtype, ("U", *a.dims), a.role, a.doc) for a in chosen)


GREEDY_STEP = Kernel(
    "greedy_step",
    4,
    arrays=(
        *_per_step(TREE_BUILD, "topk_logprob", "topk_token", "root_token", "prefix_len"),
        *_per_step(TREE_ACCEPT, "token_limit"),
        Array("stop_token", "i32", ("T",), "in", "tokens that end a request"),
        Array("block_table", "i32", ("B", "M"), "in", "page of each S slots, mapped below prefix_len + N"),
        Array("kv", "bf16", ("Y", "G", "S", "R"), "inout", "pools before the first, after the last step"),
        # Synthesized mode: the model's part is given.
        Array("q", "bf16", ("U", "B", "N", "Hq", "Dk"), "in", "synthesized: queries of each step"),
        Array("tail", "bf16", ("U", "Y", "B", "N", "R"), "in", "synthesized: rows written at prefix_len + i"),
        Array("target_predict", "i32", ("U", "B", "N"), "in", "synthesized: input; planted: compared output"),
        # Planted mode: q, tail rows and target_predict are made on the device.
        Array("head", "bf16", ("U", "V", "D"), "in", "planted: centroid rows, D = Hq*Dv"),
        Array("head_bias", "f32", ("U", "V"), "in", "planted: bias of each row"),
        Array("head_token", "i32", ("U", "V"), "in", "planted: token of each row"),
        *_per_step(TREE_BUILD),
        *_per_step(VERIFY_ATTN),
        *_per_step(TREE_ACCEPT),
        *_per_step(KV_COMMIT, "new_len"),
    ),
    scalars=(
        *TREE_BUILD.scalars,
        *TREE_ACCEPT.scalars,
        *VERIFY_ATTN.scalars,
        Scalar("layer", "i32", "layer of kv that verify_attn reads"),
    ),
    struct=_struct(
        "ddtree_greedy_step_args",
        build=_P, attn=_P, accept=_P, commit=_P,
        before_attn="hook", before_attn_context=_P, after_attn="hook", after_attn_context=_P,
    ),
    doc="U consecutive steps: build, attention, accept and commit on one stream.",
)  # fmt: skip

KERNELS: dict[str, Kernel] = {
    k.name: k for k in (TREE_BUILD, VERIFY_ATTN, TREE_ACCEPT, KV_COMMIT, GREEDY_STEP)
}

SYNTHESIZED_INPUTS = ("q", "tail", "target_predict")
PLANTED_INPUTS = ("head", "head_bias", "head_token")

PLANTED_EMBED_STRUCT = _struct(
    "ddtree_planted_embed_args",
    node_token=_P, position=_P, node_count=_P, prefix_len=_P, block_table=_P, q=_P, layer_base=_P,
    B="i32", N="i32", Hq="i32", Dk="i32", R="i32", S="i32", M="i32", Y="i32",
)  # fmt: skip
PLANTED_HEAD_STRUCT = _struct(
    "ddtree_planted_head_args",
    out=_P, node_count=_P, head=_P, head_bias=_P, head_token=_P, target_predict=_P,
    B="i32", N="i32", V="i32", D="i32",
)  # fmt: skip
INFO_STRUCT = _struct(
    "ddtree_info",
    abi_version="u32", contract_major="u32", contract_minor="u32", memory_space="u32", lse_base="u32",
    capabilities="u32", max_B="i32", max_L="i32", max_K="i32", max_N="i32", max_S="i32", max_Hq="i32",
    max_T="i32", max_Y="i32", description="text",
)  # fmt: skip
HINTS_STRUCT = _struct("ddtree_hints", live_batch="i32", max_prefix="i32", max_nodes="i32", reserved="i32")

STATUS_CODES: dict[int, str] = {
    0: "OK",
    1: "INVALID_ARGUMENT",
    2: "UNSUPPORTED",
    3: "WORKSPACE_TOO_SMALL",
    4: "LAUNCH_FAILED",
}
OK, UNSUPPORTED = 0, 2  # of STATUS_CODES
MEMORY_SPACES: dict[int, str] = {0: "HOST", 1: "DEVICE"}
LSE_BASES: dict[int, str] = {0: "NATURAL", 1: "BASE2"}
CAPABILITIES: dict[str, int] = {
    "TREE_BUILD": 1 << 0,
    "ATTN_MLA": 1 << 1,
    "ATTN_GQA": 1 << 2,
    "ATTN_LSE": 1 << 3,
    "TREE_ACCEPT": 1 << 4,
    "STOP_AND_LIMIT": 1 << 5,
    "KV_COMMIT": 1 << 6,
    "GREEDY_STEP": 1 << 7,
    "PLANTED": 1 << 8,
}

# The mla row: 512 latent + 64 rope elements; the value is the latent part.
MLA_DK, MLA_DV, MLA_ROPE = 576, 512, 64


def mask_words(nodes: int) -> int:
    """W: 32-bit words of one mask row for ``nodes`` slots."""
    return (nodes + 31) // 32


def status_text(status: int) -> str:
    """A status code by its name."""
    return STATUS_CODES.get(status, f"unknown status {status}")
