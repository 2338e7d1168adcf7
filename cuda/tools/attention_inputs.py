"""Random attention problems on the GPU, a reference for them, and the library that is measured."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

LATENT, ROPE, DEPTH_LIMIT = 512, 64, 16
WIDTH = LATENT + ROPE
SCALE = 192**-0.5

_POINTERS = (
    "q", "key", "rope", "value", "block_table", "prefix_len", "node_count", "tree_mask", "out", "lse",
)  # fmt: skip
_STRIDES = tuple(
    f"{pool}_{unit}_stride" for pool in ("key", "rope", "value") for unit in ("page", "slot", "head")
)
_SIZES = ("B", "N", "W", "Hq", "Hkv", "Dk", "Dr", "Dv", "G", "S", "M")


class Args(ctypes.Structure):
    """ddtree_verify_attn_args."""

    _fields_ = [
        ("struct_bytes", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _STRIDES),
        *((name, ctypes.c_int32) for name in _SIZES),
        ("scale", ctypes.c_float),
    ]


@dataclass(frozen=True)
class Shape:
    """One row of the table."""

    batch: int
    heads: int
    nodes: int
    prefix: int
    page: int = 64

    @property
    def rows(self) -> int:
        """Query rows of all requests."""
        return self.batch * self.heads * self.nodes

    @property
    def flop(self) -> float:
        """Operations with the full tail square."""
        return 2.0 * self.rows * (self.prefix + self.nodes) * (WIDTH + LATENT)

    def __str__(self) -> str:
        prefix = f"{self.prefix // 1024}k" if self.prefix % 1024 == 0 and self.prefix else str(self.prefix)
        return f"{self.batch}x{self.heads}x{self.nodes}x{prefix}" + (
            "" if self.page == 64 else f"/{self.page}"
        )


def random_tree(rng: np.random.Generator, nodes: int, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Mask words [slots, W] of a random tree and the same as booleans [nodes, nodes]."""
    sees = np.zeros((nodes, nodes), bool)
    depth = np.zeros(nodes, int)
    sees[0, 0] = True
    for node in range(1, nodes):
        parent = int(rng.integers(0, node))
        while depth[parent] + 1 > DEPTH_LIMIT:
            parent = int(rng.integers(0, node))
        depth[node] = depth[parent] + 1
        sees[node] = sees[parent]
        sees[node, node] = True
    words = np.zeros((slots, (slots + 31) // 32), np.uint32)
    for node, key in zip(*np.nonzero(sees), strict=True):
        words[node, key // 32] |= np.uint32(1 << (key % 32))
    return words, sees


class Problem:
    """Inputs of one shape. Slots that no node may see hold NaN when `hostile`."""

    def __init__(self, shape: Shape, seed: int = 1, spare_nodes: int = 0, hostile: bool = False) -> None:
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.shape = shape
        self.slots = shape.nodes + spare_nodes
        batch, page = shape.batch, shape.page
        length = shape.prefix + self.slots
        self.pages = -(-length // page)
        order = rng.permutation(batch * self.pages).astype(np.int32)
        self.table = order.reshape(batch, self.pages)
        self.q = torch.randn(batch, self.slots, shape.heads, WIDTH, device="cuda").bfloat16()
        self.kv = torch.randn(batch * self.pages, page, WIDTH, device="cuda").bfloat16()
        self.prefix = np.full(batch, shape.prefix, np.int32)
        self.count = np.full(batch, shape.nodes, np.int32)
        if hostile:  # ragged batches too
            self.prefix[1:] = rng.integers(0, shape.prefix + 1, batch - 1)
            self.count[1:] = rng.integers(0, shape.nodes + 1, batch - 1)
        self.sees: list[np.ndarray] = []
        masks = []
        for count in self.count:
            words, sees = random_tree(rng, max(int(count), 1), self.slots)
            masks.append(words)
            self.sees.append(sees)
        self.block_table = torch.from_numpy(self.table).cuda()
        self.prefix_len = torch.from_numpy(self.prefix).cuda()
        self.node_count = torch.from_numpy(self.count).cuda()
        self.tree_mask = torch.from_numpy(np.stack(masks).view(np.int32)).cuda()
        if hostile:
            for request in range(batch):
                self.q[request, int(self.count[request]) :] = float("nan")
                first_unused = int(self.prefix[request]) + int(self.count[request])
                flat = torch.from_numpy(self._flat(request, first_unused, self.pages * page)).cuda()
                self.kv.view(-1, WIDTH)[flat] = float("nan")
        self.out = torch.empty(batch, self.slots, shape.heads, LATENT, device="cuda", dtype=torch.bfloat16)
        self.lse = torch.empty(batch, self.slots, shape.heads, device="cuda")

    def _flat(self, request: int, first: int, last: int) -> np.ndarray:
        slot = np.arange(first, last)
        page = self.shape.page
        return self.table[request][slot // page].astype(np.int64) * page + slot % page

    def args(self, kv: torch.Tensor | None = None) -> Args:
        """Arguments of the library, with another pool if given."""
        shape, pool = self.shape, self.kv if kv is None else kv
        base = pool.data_ptr()
        values = {
            "struct_bytes": ctypes.sizeof(Args), "q": self.q.data_ptr(), "key": base,
            "rope": base + 2 * LATENT, "value": base, "block_table": self.block_table.data_ptr(),
            "prefix_len": self.prefix_len.data_ptr(), "node_count": self.node_count.data_ptr(),
            "tree_mask": self.tree_mask.data_ptr(),
            "out": self.out.data_ptr(), "lse": self.lse.data_ptr(), "B": shape.batch, "N": self.slots,
            "W": (self.slots + 31) // 32, "Hq": shape.heads, "Hkv": 1, "Dk": WIDTH, "Dr": ROPE, "Dv": LATENT,
            "G": pool.shape[0], "S": shape.page, "M": self.pages, "scale": SCALE,
        }  # fmt: skip
        values |= {name: shape.page * WIDTH for name in _STRIDES if "page" in name}
        values |= {name: WIDTH for name in _STRIDES if "slot" in name}
        return Args(**values)

    def worst(self, out: torch.Tensor, lse: torch.Tensor | None, sampled: int = 64) -> float:
        """Largest error of sampled rows as a share of the contract's allowance; inf where it has none."""
        rng = np.random.default_rng(7)
        worst = 0.0
        for request in range(self.shape.batch):
            count, prefix = int(self.count[request]), int(self.prefix[request])
            dead_out, dead_lse = out[request, count:], None if lse is None else lse[request, count:]
            if bool((dead_out != 0).any()) or (
                dead_lse is not None and bool((dead_lse != float("-inf")).any())
            ):
                return float("inf")
            if count == 0:
                continue
            rows = np.unique(rng.integers(0, count * self.shape.heads, sampled))
            rows[-1] = count * self.shape.heads - 1
            node, head = torch.from_numpy(rows // self.shape.heads), torch.from_numpy(rows % self.shape.heads)
            index = torch.from_numpy(self._flat(request, 0, prefix + count)).cuda()
            keys = self.kv.view(-1, WIDTH)[index].double()
            q = self.q[request, node, head].double()
            visible = torch.ones(len(rows), prefix + count, dtype=torch.bool, device="cuda")
            visible[:, prefix:] = torch.from_numpy(self.sees[request][rows // self.shape.heads]).cuda()
            score = (q @ keys.T) * SCALE
            bound = (q.abs() @ keys.abs().T * SCALE).masked_fill(~visible, 0).amax(1)
            score = score.masked_fill(~visible, float("-inf"))
            exact_lse = torch.logsumexp(score, 1)
            p = torch.exp(score - exact_lse[:, None])
            exact = p @ keys[:, :LATENT]
            m = p @ keys[:, :LATENT].abs()
            d = 2.0**-20 * (1 + bound)
            allowed = 2.0**-8 * (exact.abs() + m) + 2 * d[:, None] * m
            error = (out[request, node, head].double() - exact).abs() / allowed
            worst = max(worst, float(error.nan_to_num(float("inf")).max()))
            if lse is not None:
                allowed_lse = d + visible.sum(1) * 2.0**-28 + 2.0**-23 * exact_lse.abs()
                error = (lse[request, node, head].double() - exact_lse).abs() / allowed_lse
                worst = max(worst, float(error.nan_to_num(float("inf")).max()))
        return worst


class Library:
    """libddtree_cuda.so."""

    def __init__(self, path: str) -> None:
        self.handle = ctypes.CDLL(path)
        self.handle.ddtree_verify_attn_config_bytes.restype = ctypes.c_uint64
        self.handle.ddtree_verify_attn_config.argtypes = [
            ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32,
            ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p,
        ]  # fmt: skip

    def bind(
        self, args: Args, config: int, shares: int = 0, workspace: torch.Tensor | None = None
    ) -> Callable[[], None]:
        """A function that enqueues one call on the current stream."""
        address = ctypes.addressof(args)
        if workspace is None:
            workspace = self.workspace(args, config, shares)

        def call(args: Args = args) -> None:  # keeps the struct alive
            stream = torch.cuda.current_stream().cuda_stream
            status = self.handle.ddtree_verify_attn_config(
                address, config, shares, workspace.data_ptr(), workspace.nbytes, stream
            )
            if status != 0:
                raise RuntimeError(f"status {status}")

        return call

    def workspace(self, args: Args, config: int, shares: int) -> torch.Tensor:
        """Poisoned workspace for such a call."""
        address = ctypes.c_void_p(ctypes.addressof(args))
        size = self.handle.ddtree_verify_attn_config_bytes(address, config, shares)
        return torch.full((max(size, 16),), 0xA5, dtype=torch.uint8, device="cuda")
