"""What the tree kernels are measured against: published code transcribed, and kernels that do less."""

from __future__ import annotations

import ctypes
import heapq
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tree_calls import Arrays, Commit, Pool

from harness.case import AnyArray
from harness.memory.buffers import Arena
from harness.memory.space import Space

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
TOLD_MOVES = 16  # kMoves of tree_floors.cu
_SOURCE = Path(__file__).with_name("tree_floors.cu")


def host_builder(logprob: F32, token: I64, budget: int) -> tuple[list[int], AnyArray]:
    """The heap and visibility stages of the published host-side builder: parents, and bool [n,n].

    ``logprob`` float32 [L,K] falling, ``token`` int64 [L,K]. As published, numbers are read one
    by one from arrays, and ids, depths and child maps are kept; logits, top-k and copies to a device are
    not here.
    """
    depths, width = logprob.shape
    node_token, node_depth = np.empty(budget, np.int64), np.empty(budget, np.int64)
    parents = np.full(budget + 1, -1, np.int32)
    children: list[dict[int, int]] = [{}]
    count = 0
    score = float(logprob[0, 0])
    heap = [(-score, (0,), 0, 1, 0, score)]
    while heap and count < budget:
        _, ranks, parent, depth, rank, score = heapq.heappop(heap)
        node_token[count] = own_token = int(token[depth - 1, rank])
        node_depth[count] = depth
        count += 1
        parents[count] = parent
        children.append({})
        children[parent][own_token] = count
        if rank + 1 < width:
            sibling = score - float(logprob[depth - 1, rank]) + float(logprob[depth - 1, rank + 1])
            heapq.heappush(heap, (-sibling, (*ranks[:-1], rank + 1), parent, depth, rank + 1, sibling))
        if depth < depths:
            child = score + float(logprob[depth, 0])
            heapq.heappush(heap, (-child, (*ranks, 0), count, depth + 1, 0, child))
    visible = np.zeros((count + 1, count + 1), bool)
    visible[0, 0] = True
    for node in range(1, count + 1):
        visible[node, :node] = visible[int(parents[node]), :node]
        visible[node, node] = True
    return parents[: count + 1].tolist(), visible


def lean_builder(costs: list[list[float]], budget: int) -> tuple[list[int], AnyArray]:
    """The same heap and mask as lean as Python allows: numbers from lists, nothing kept but parents.

    ``costs``: minus the log-probs, a rising row per depth.
    """
    depths, width = len(costs), len(costs[0])
    heap = [(costs[0][0], (0,), 0)]
    parents = [-1]
    while heap and len(parents) <= budget:
        cost, ranks, parent = heapq.heappop(heap)
        node = len(parents)
        parents.append(parent)
        depth, rank = len(ranks), ranks[-1]
        row = costs[depth - 1]
        if rank + 1 < width:
            sibling = cost - row[rank] + row[rank + 1]
            heapq.heappush(heap, (sibling, (*ranks[:-1], rank + 1), parent))
        if depth < depths:
            heapq.heappush(heap, (cost + costs[depth][0], (*ranks, 0), node))
    visible = np.zeros((len(parents), len(parents)), bool)
    visible[0, 0] = True
    for node in range(1, len(parents)):
        visible[node] = visible[parents[node]]
        visible[node, node] = True
    return parents, visible


def load_floors() -> ctypes.CDLL:
    """tree_floors.cu, compiled for this machine's GPU."""
    path = Path(tempfile.mkdtemp()) / "tree_floors.so"
    command = ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", str(_SOURCE), "-o", str(path)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(path))


class Empty:
    """A launch of a kernel that does nothing."""

    in_place = False

    def __init__(self, floors: ctypes.CDLL, space: Space, blocks: int, threads: int) -> None:
        self._floors, self._arguments = floors, (blocks, threads, ctypes.c_void_p(space.stream))

    def stage(self, poison: int) -> None:
        """It has no buffers."""

    def call(self) -> int:
        """Enqueue it once; a CUDA error code."""
        return int(self._floors.floor_empty(*self._arguments))

    def wrong(self) -> str:
        """Nothing."""
        return ""


class Walk:
    """The greedy walk by one thread per request, over the trees of a tree_accept call."""

    in_place = False

    def __init__(
        self, floors: ctypes.CDLL, space: Space, inputs: Mapping[str, AnyArray], expected: Mapping[str, Any]
    ) -> None:
        batch, nodes = inputs["node_token"].shape
        path = expected["accept_index"].shape[1]
        wide = {n: inputs[n].astype(np.int64) for n in ("node_token", "next_token", "next_sibling")}
        wide |= {"slot": np.arange(batch * nodes, dtype=np.int64)}
        wide |= {"target": inputs["target_predict"].astype(np.int64)}
        self._path, self._length = expected["accept_index"], expected["accept_len"]
        sizes = {"predicts": 8 * batch * nodes, "accept_index": 8 * batch * path, "accepted": 8 * batch}
        self._arena = Arena(space, sizes | {n: v.nbytes for n, v in wide.items()}, 0)
        for name, value in wide.items():
            self._arena.view(name, np.int64, value.shape)[...] = value
        order = [
            "predicts",
            "accept_index",
            "accepted",
            "node_token",
            "slot",
            "next_token",
            "next_sibling",
            "target",
        ]
        pointers = [ctypes.c_void_p(self._arena.address(name)) for name in order]
        self._floors, self._nodes = floors, nodes
        self._arguments = (*pointers, batch, nodes, path, ctypes.c_void_p(space.stream))

    def stage(self, poison: int) -> None:
        """Inputs, and outputs that name no slot."""
        for name in ("predicts", "accept_index", "accepted"):
            self._arena.view(name, np.int64)[:] = -2 - poison
        self._arena.seal()

    def call(self) -> int:
        """Enqueue it once; a CUDA error code."""
        return int(self._floors.floor_walk(*self._arguments))

    def wrong(self) -> str:
        """Where it walks another way than the reference."""
        self._arena.fetch()
        batch, path = self._path.shape
        got = (
            self._arena.read("accept_index", np.int64, (batch, path))
            - self._nodes * np.arange(batch)[:, None]
        )
        on_path = np.arange(path) <= self._length[:, None]
        same = np.array_equal(self._arena.read("accepted", np.int64, (batch,)), self._length)
        return "" if same and (got == self._path)[on_path].all() else "the walk accepts something else"


class ToldMoves:
    """What ``commit`` moves, by a kernel that is told where at its launch: it has nothing to find out."""

    in_place = True

    def __init__(self, floors: ctypes.CDLL, space: Space, pool: Pool, inputs: Arrays, commit: Commit) -> None:
        prefix, count = int(inputs["prefix_len"][0]), int(inputs["accept_len"][0])
        if count != TOLD_MOVES:
            raise ValueError(f"{count} rows move, but the kernel takes {TOLD_MOVES}")
        table, path = inputs["block_table"][0], inputs["accept_index"][0, 1 : 1 + count]
        rows = prefix + path, prefix + 1 + np.arange(count)
        moves = [(ctypes.c_int64 * count)(*pool.offsets(table, slots)) for slots in rows]
        where = ctypes.c_void_p(pool.address), ctypes.c_int64(pool.layer_bytes), pool.layers, pool.row
        length = ctypes.c_void_p(commit.address("new_len")), prefix + 1 + count
        self._arguments = (*where, *moves, *length, ctypes.c_void_p(space.stream))
        self._floors, self._commit = floors, commit

    def stage(self, poison: int) -> None:
        """The pages as they were."""
        self._commit.stage(poison)

    def call(self) -> int:
        """Enqueue it once; a CUDA error code."""
        return int(self._floors.floor_moves(*self._arguments))

    def wrong(self) -> str:
        """What differs from the reference."""
        return self._commit.wrong()
