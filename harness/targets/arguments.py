"""Argument structs of one case: addresses, sizes and strides, by the contract's layouts."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache

from harness.shapes import PAGE_STRIDE, Dims
from harness.targets.abi import ARGS, PLANTED_EMBED, PLANTED_HEAD, filled

Address = Callable[[str], int]  # 0 is null
Scalars = Mapping[str, int | float]


def kernel_args(
    kernel: str, address: Address, dims: Dims, scalars: Scalars, row_bytes: int = 1
) -> ctypes.Structure:
    """The struct of one of the four kernels. ``row_bytes`` is the size of a pool element (kv_commit).

    A ``page_stride`` among the scalars stands for S * R elements from page to page.
    """
    special: dict[str, int | float | None] = {}
    if kernel == "verify_attn":
        special = _attention_layout(address("kv"), dims, int(scalars.get(PAGE_STRIDE, 0)))
    elif kernel == "kv_commit":
        row = dims["R"] * row_bytes
        page = int(scalars.get(PAGE_STRIDE, 0)) * row_bytes or dims["S"] * row
        special = {"page_bytes": page, "slot_bytes": row, "row_bytes": row, "reserved": 0}
    return _fill(ARGS[kernel], address, dims, scalars, special)


def planted_embed_args(address: Address, dims: Dims) -> ctypes.Structure:
    """The context of `ddtree_planted_embed`."""
    return _fill(PLANTED_EMBED, address, dims, {}, {})


def planted_head_args(address: Address, dims: Dims) -> ctypes.Structure:
    """The context of `ddtree_planted_head`."""
    return _fill(PLANTED_HEAD, address, dims, {}, {})


def greedy_args(
    parts: Mapping[str, ctypes.Structure], before: tuple[int, int], after: tuple[int, int]
) -> ctypes.Structure:
    """The struct of greedy_step; ``before`` and ``after`` are (function, context) addresses, 0 for none.

    The caller keeps ``parts`` alive.
    """
    return filled(
        ARGS["greedy_step"],
        {
            "build": ctypes.addressof(parts["tree_build"]),
            "attn": ctypes.addressof(parts["verify_attn"]),
            "accept": ctypes.addressof(parts["tree_accept"]),
            "commit": ctypes.addressof(parts["kv_commit"]),
            "before_attn": before[0],
            "before_attn_context": before[1],
            "after_attn": after[0],
            "after_attn_context": after[1],
        },
    )


def _fill(
    kind: type[ctypes.Structure],
    address: Address,
    dims: Dims,
    scalars: Scalars,
    special: Mapping[str, int | float | None],
) -> ctypes.Structure:
    pointers = {name: address(name) or None for name in _pointers(kind)}
    return filled(kind, {**dims, **scalars, **pointers, **special})


@cache
def _pointers(kind: type[ctypes.Structure]) -> tuple[str, ...]:
    return tuple(name for name, ctype, *_ in kind._fields_ if ctype is ctypes.c_void_p)


def _attention_layout(kv: int, dims: Dims, page_stride: int) -> dict[str, int | float | None]:
    """Pointers and strides (in elements) of the two row layouts of the contract."""
    page, row, heads = page_stride or dims["S"] * dims["R"], dims["R"], dims["Hkv"]
    mla = row == dims["Dk"]
    rope_width = dims["Dk"] - dims["Dv"] if mla else 0
    rope = kv + 2 * dims["Dv"] if rope_width else None
    return {
        "key": kv,
        "rope": rope,
        "value": kv if mla else kv + 2 * heads * dims["Dk"],
        "Dr": rope_width,
        "key_page_stride": page,
        "key_slot_stride": row,
        "key_head_stride": 0 if mla else dims["Dk"],
        "rope_page_stride": page if rope else 0,
        "rope_slot_stride": row if rope else 0,
        "rope_head_stride": 0,
        "value_page_stride": page,
        "value_slot_stride": row,
        "value_head_stride": 0 if mla else dims["Dv"],
    }
