"""The C ABI through ctypes: every struct is derived from the contract, nothing is written twice."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

from harness.contract import (
    HINTS_STRUCT,
    INFO_STRUCT,
    KERNELS,
    PLANTED_EMBED_STRUCT,
    PLANTED_HEAD_STRUCT,
    CType,
    Struct,
)

HOOK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)

_TYPES: dict[CType, Any] = {
    "pointer": ctypes.c_void_p,
    "u64": ctypes.c_uint64,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "f32": ctypes.c_float,
    "hook": ctypes.c_void_p,  # the address of a function of type HOOK, or null
    "text": ctypes.c_char_p,
}


def structure(struct: Struct) -> type[ctypes.Structure]:
    """The ctypes class of a struct of the contract."""
    fields = [(f.name, _TYPES[f.ctype]) for f in struct.fields]
    return type(struct.name, (ctypes.Structure,), {"_fields_": fields})


ARGS: dict[str, type[ctypes.Structure]] = {name: structure(k.struct) for name, k in KERNELS.items()}
PLANTED_EMBED = structure(PLANTED_EMBED_STRUCT)
PLANTED_HEAD = structure(PLANTED_HEAD_STRUCT)
INFO = structure(INFO_STRUCT)
HINTS = structure(HINTS_STRUCT)


def filled(kind: type[ctypes.Structure], values: Mapping[str, Any]) -> ctypes.Structure:
    """A struct with ``struct_bytes`` set and every other member taken from ``values`` by name."""
    return kind(ctypes.sizeof(kind), *[values[name] for name in _members(kind)])


@cache
def _members(kind: type[ctypes.Structure]) -> tuple[str, ...]:
    return tuple(name for name, *_ in kind._fields_[1:])


def declare(library: ctypes.CDLL) -> None:
    """Give argument and result types to every symbol of the ABI that the library has."""
    pointer, size, number = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32
    signatures: dict[str, list[Any]] = {
        "ddtree_query": [pointer],
        "ddtree_workspace_bytes": [number, pointer, ctypes.POINTER(size)],
        "ddtree_plan": [number, pointer, pointer],
        "ddtree_planted_embed": [pointer, pointer],
        "ddtree_planted_head": [pointer, pointer],
        **{kernel.symbol: [pointer, pointer, size, pointer] for kernel in KERNELS.values()},
    }
    for symbol, arguments in signatures.items():
        function = getattr(library, symbol, None)
        if function is not None:
            function.argtypes, function.restype = arguments, number
