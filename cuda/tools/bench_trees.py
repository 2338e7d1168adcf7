"""Times tree_build, tree_accept, kv_commit and their chain on a GPU, next to floors and to what is published.

    python cuda/tools/bench_trees.py build/libddtree_cuda.so --json trees.json

A number is the median (and p95) over graph replays: each graph holds 40 launches over 40 input sets, events
stand around the replay, the time is divided by 40. `chain` is one replay of a graph of three nodes, launch
included. Inputs are as warm in L2 as the kernels in front of them leave them, except the rows of kv_commit,
which do not fit. Buffers that were timed are compared with the references before the table is printed.

Needs torch and nvcc (for tree_floors.cu, unless --floors names it built).
"""

from __future__ import annotations

import argparse
import ctypes
import heapq
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from harness.cases.topk import bf16_rows, build_inputs, grid_rows, off_grid_rows  # noqa: E402
from harness.draw import Draw  # noqa: E402
from references.kv_commit import kv_commit  # noqa: E402
from references.tree_accept import tree_accept  # noqa: E402
from references.tree_build import tree_build  # noqa: E402

LAUNCHES = 40
REPLAYS = 60
CHECKED = 3  # input sets per row that are compared
Arrays = dict[str, Any]
I32, U32, I64, U8 = np.int32, np.uint32, np.int64, np.uint8

BUILD = (
    "topk_logprob topk_token root_token prefix_len node_token node_parent node_depth position next_token "
    "next_sibling tree_mask node_count tree_status | B L K N W budget"
)
ACCEPT = (
    "node_token next_token next_sibling target_predict node_count stop_token token_limit accept_index "
    "accept_len bonus_token out_token finished accept_status | B N T depth_limit"
)
COMMIT = (
    "layer_base block_table prefix_len accept_index accept_len new_len "
    "| page_bytes:q slot_bytes:q row_bytes:q B A M S Y reserved"
)


def struct_of(members: str) -> type[ctypes.Structure]:
    """The C struct of ``pointers | scalars``; a scalar is int32 unless it says ``:q``."""
    pointers, scalars = (part.split() for part in members.split("|"))
    fields: list[tuple[str, Any]] = [("struct_bytes", ctypes.c_uint64)]
    fields += [(name, ctypes.c_void_p) for name in pointers]
    fields += [
        (name.removesuffix(":q"), ctypes.c_int64 if name.endswith(":q") else ctypes.c_int32)
        for name in scalars
    ]
    return type("Args", (ctypes.Structure,), {"_fields_": fields})


def to_device(array: Any) -> torch.Tensor:
    """Copy an array to the GPU; torch knows no uint32, so those travel as int32."""
    array = np.ascontiguousarray(array)
    if array.dtype == U32:
        array = array.view(I32)
    return torch.from_numpy(array.copy()).cuda()


def on_host(tensor: torch.Tensor, like: Any) -> Any:
    """Copy a tensor back, with the dtype of ``like``."""
    return tensor.cpu().numpy().view(np.asarray(like).dtype)


class Call:
    """One C call with its device buffers: inputs from numpy, outputs poisoned."""

    def __init__(self, function: Any, members: str, inputs: Arrays, outputs: Arrays, **scalars: int) -> None:
        self.function = function
        self.buffers: dict[str, Any] = {
            n: a if isinstance(a, torch.Tensor) else to_device(a) for n, a in inputs.items()
        }
        for name, (shape, dtype) in outputs.items():
            self.buffers[name] = to_device(np.full(shape, 0x5A5A5A5A, dtype))
        self.args = struct_of(members)()
        self.args.struct_bytes = ctypes.sizeof(self.args)
        for name, tensor in self.buffers.items():
            setattr(self.args, name, tensor.data_ptr() if tensor is not None else None)
        for name, value in scalars.items():
            setattr(self.args, name, value)

    def __call__(self) -> None:
        """Enqueue the call on the current stream."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = self.function(ctypes.byref(self.args), None, ctypes.c_uint64(0), stream)
        if status:
            raise RuntimeError(f"status {status}")

    def check(self, expected: Arrays) -> None:
        """Stop unless the buffers hold what the reference says."""
        for name, want in expected.items():
            if not np.array_equal(on_host(self.buffers[name], want), want):
                raise SystemExit(f"{self.function.__name__}: {name} differs from the reference")


# ---- Inputs -------------------------------------------------------------------------------------


def softmax_rows(seed: int, shape: tuple[int, ...], spread: float) -> Any:
    """Log-softmax of random logits over 32,768 tokens, float32: what a model gives, off the grid."""
    generator = torch.Generator("cuda").manual_seed(seed)
    logits = spread * torch.randn((*shape[:-1], 32768), generator=generator, device="cuda")
    top = torch.log_softmax(logits, -1).topk(shape[-1], sorted=True).values
    return top.clamp(max=0).cpu().numpy()


def rows_of(kind: str, seed: int, shape: tuple[int, int, int]) -> Any:
    """Log-probs [B,L,K] of one kind."""
    draw = Draw(seed)
    if kind == "off_grid":
        return off_grid_rows(draw, shape)
    if kind == "bf16":
        return bf16_rows(draw, shape)
    if kind == "softmax":
        return softmax_rows(seed, shape, 4.0)
    if kind == "equal":
        return np.full(shape, -1, np.float32)
    if kind == "zero":
        return np.zeros(shape, np.float32)
    return grid_rows(draw, shape, kind)


def build_call(library: Any, inputs: Arrays, budget: int) -> Call:
    """A call of tree_build over ``inputs``."""
    batch, depth, width = inputs["topk_logprob"].shape
    nodes, words = budget + 1, (budget + 32) // 32
    names = ["node_token", "node_parent", "node_depth", "position", "next_token", "next_sibling"]
    outputs: Arrays = {name: ((batch, nodes), I32) for name in names}
    outputs |= {"tree_mask": ((batch, nodes, words), U32)}
    outputs |= {"node_count": ((batch,), I32), "tree_status": ((batch,), I32)}
    return Call(
        library.ddtree_tree_build, BUILD, inputs, outputs,
        B=batch, L=depth, K=width, N=nodes, W=words, budget=budget,
    )  # fmt: skip


def last_sibling_tree(batch: int, nodes: int, steps: int, seed: int) -> Arrays:
    """Every accepted node is the last of its siblings; the siblings share out the nodes evenly."""
    generator = np.random.default_rng(seed)
    child, sibling = np.full((2, nodes), -1, I32)
    token = generator.permutation(100_000)[:nodes].astype(I32)
    predict = generator.permutation(100_000)[:nodes].astype(I32)
    ends = [1 + round((nodes - 1) * (i + 1) / steps) for i in range(steps)]
    parent, begin = 0, 1
    for end in ends:
        child[parent] = begin
        sibling[begin : end - 1] = np.arange(begin + 1, end)
        predict[parent] = token[end - 1]
        parent, begin = end - 1, end
    predict[parent] = 123_456
    one = {"node_token": token, "next_token": child, "next_sibling": sibling, "target_predict": predict}
    inputs: Arrays = {name: np.tile(value, (batch, 1)) for name, value in one.items()}
    inputs["node_count"] = np.full(batch, nodes, I32)
    inputs["token_limit"] = np.full(batch, 2**31 - 1, I32)
    return inputs


def accept_call(library: Any, inputs: Arrays, depth_limit: int) -> Call:
    """A call of tree_accept over ``inputs``."""
    batch, nodes = inputs["node_token"].shape
    outputs: Arrays = {name: ((batch, depth_limit + 1), I32) for name in ("accept_index", "out_token")}
    outputs |= {n: ((batch,), I32) for n in ("accept_len", "bonus_token", "finished", "accept_status")}
    return Call(
        library.ddtree_tree_accept, ACCEPT, inputs, outputs, B=batch, N=nodes, T=0, depth_limit=depth_limit
    )


def commit_call(library: Any, pool: torch.Tensor, inputs: Arrays) -> Call:
    """A call of kv_commit over a pool [Y,G,S,R] of bytes."""
    layers, _, slots, row = pool.shape
    batch, path = inputs["accept_index"].shape
    bases = torch.tensor([pool[i].data_ptr() for i in range(layers)], dtype=torch.int64, device="cuda")
    return Call(
        library.ddtree_kv_commit, COMMIT, {"layer_base": bases, **inputs}, {"new_len": ((batch,), I32)},
        page_bytes=slots * row, slot_bytes=row, row_bytes=row,
        B=batch, A=path, M=inputs["block_table"].shape[1], S=slots, Y=layers, reserved=0,
    )  # fmt: skip


# ---- Timing -------------------------------------------------------------------------------------


def graph_of(steps: Sequence[Callable[[], None]]) -> torch.cuda.CUDAGraph:
    """Capture ``steps`` in one graph."""
    for step in steps[:1]:
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for step in steps:
            step()
    return graph


def replay_times(graphs: Sequence[torch.cuda.CUDAGraph], nodes: int) -> tuple[float, float]:
    """Median and p95 in microseconds per node; graphs take turns."""
    times = []
    for i in range(REPLAYS + 5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        graphs[i % len(graphs)].replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / nodes)
    return float(np.median(times[5:])), float(np.percentile(times[5:], 95))


class Table:
    """Prints rows as they come, and keeps them."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, what: str, times: tuple[float, float], bar: float | None = None) -> None:
        """Add one row; ``bar`` is what the median should stay below."""
        median, p95 = times
        self.rows.append(
            {"what": what, "median_us": round(median, 2), "p95_us": round(p95, 2), "bar_us": bar}
        )
        verdict = "" if bar is None else f"  bar {bar:g} {'ok' if median <= bar else 'MISSED'}"
        print(f"{what:<58} {median:8.2f} {p95:8.2f}{verdict}", flush=True)


# ---- What is timed ------------------------------------------------------------------------------


def time_builds(table: Table, library: Any, quick: bool) -> None:
    """tree_build, by shape and kind of rows."""
    shapes = [(1, 15, 64, 8.0), (1, 15, 256, 15.0), (1, 15, 1024, 30.0), (32, 15, 64, 12.0)]
    kinds = ["even", "decisive", "flat", "mixed", "peaked", "off_grid", "softmax", "bf16", "equal", "zero"]
    for batch, depth, size, bar in shapes:
        for kind in kinds[:2] if quick else kinds:
            calls = []
            for i in range(LAUNCHES):
                inputs = build_inputs(Draw(1000 + i), rows_of(kind, i, (batch, depth, size)))
                calls.append(build_call(library, inputs, size))
                if i < CHECKED:
                    calls[i]()
                    calls[i].check(tree_build(**inputs, budget=size))
            on_grid = kind in ("even", "decisive", "flat", "mixed")
            name = f"tree_build batch {batch} L {depth} K {size} budget {size}, {kind}"
            table.add(name, replay_times([graph_of(calls)], LAUNCHES), bar if on_grid else None)


def time_accepts(table: Table, library: Any, floors: Any) -> None:
    """tree_accept, and the walk by one thread."""
    for nodes, bar in ((65, 2.5), (1025, 3.5)):
        for batch in (1, 32):
            sets = [last_sibling_tree(batch, nodes, 15, i) for i in range(LAUNCHES)]
            calls = [accept_call(library, inputs, 15) for inputs in sets]
            graph = graph_of(calls)
            table.add(
                f"tree_accept batch {batch} N {nodes}, 15 accepted", replay_times([graph], LAUNCHES), bar
            )
            for inputs, call in zip(sets[:CHECKED], calls, strict=False):
                stops = np.zeros(0, I32)
                call.check(tree_accept(**inputs, stop_token=stops, depth_limit=15))
            walks = [walk_floor(floors, inputs, batch, nodes) for inputs in sets]
            name = f"  one thread per request, batch {batch} N {nodes}"
            table.add(name, replay_times([graph_of(walks)], LAUNCHES))


def walk_floor(floors: Any, inputs: Arrays, batch: int, nodes: int) -> Callable[[], None]:
    """A launch of the walk by one thread over the same trees."""
    slot = np.arange(batch * nodes).reshape(batch, nodes)
    wide = [to_device(inputs[n].astype(I64)) for n in ("node_token", "next_token", "next_sibling")]
    target = to_device(inputs["target_predict"].astype(I64))
    buffers = [to_device(np.zeros(batch * nodes, I64)), to_device(np.zeros(batch * 16, I64))]
    buffers += [to_device(np.zeros(batch, I64)), wide[0], to_device(slot), wide[1], wide[2], target]

    def run() -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        pointers = [ctypes.c_void_p(b.data_ptr()) for b in buffers]
        if floors.floor_walk(*pointers, batch, nodes, 16, stream):
            raise RuntimeError("floor_walk")

    run()
    torch.cuda.synchronize()
    if buffers[2].tolist() != [15] * batch:
        raise SystemExit("floor_walk accepts something else")
    return run


def time_commits(table: Table, library: Any, pool: torch.Tensor) -> None:
    """kv_commit, with rows from device memory and from L2."""
    slots = pool.shape[2]
    calls = []
    for i in range(LAUNCHES):
        inputs = {
            "block_table": np.array([[3 * i, 3 * i + 1, 3 * i + 2]], I32),
            "prefix_len": np.array([slots // 2 + i], I32),
            "accept_index": np.arange(0, 34, 2, dtype=I32)[None],
            "accept_len": np.array([16], I32),
        }
        call = commit_call(library, pool, inputs)
        calls.append(call)
        if i < CHECKED:
            before = pool[:, 3 * i : 3 * i + 3].cpu().numpy()
            local = {**inputs, "block_table": np.array([[0, 1, 2]], I32)}
            call()
            expected = kv_commit(kv=before, **local)
            after = pool[:, 3 * i : 3 * i + 3].cpu().numpy()
            if not np.array_equal(after, expected["kv"]):
                raise SystemExit("kv_commit: kv differs from the reference")
            call.check({"new_len": expected["new_len"]})
    name = f"kv_commit {pool.shape[0]} layers, 16 rows of {pool.shape[3]} bytes move"
    table.add(name, replay_times([graph_of(calls)], LAUNCHES), 2.5)
    table.add(
        "  the same rows every time, in L2", replay_times([graph_of(calls[:1] * LAUNCHES)], LAUNCHES), 2.5
    )


def time_chain(table: Table, library: Any, pool: torch.Tensor) -> None:
    """build, accept, commit of one request; the targets follow the tree to its deepest node."""
    budget, chains = 64, []
    for i in range(LAUNCHES):
        inputs = build_inputs(Draw(i), rows_of("decisive", i, (1, 15, 64)))
        inputs["prefix_len"] = np.array([70], I32)
        tree = tree_build(**inputs, budget=budget)
        predict = np.full((1, budget + 1), 7, I32)
        node = int(np.argmax(tree["node_depth"][0]))
        while node > 0:
            parent = tree["node_parent"][0, node]
            predict[0, parent] = tree["node_token"][0, node]
            node = int(parent)
        build = build_call(library, inputs, budget)
        names = ("node_token", "next_token", "next_sibling", "node_count")
        accept_inputs = {n: build.buffers[n] for n in names}
        accept_inputs |= {"target_predict": to_device(predict), "token_limit": to_device(np.array([99], I32))}
        accept = accept_call(library, accept_inputs, 15)
        commit_inputs = {n: accept.buffers[n] for n in ("accept_index", "accept_len")}
        commit_inputs |= {"prefix_len": build.buffers["prefix_len"]}
        commit_inputs |= {"block_table": to_device(np.array([[3 * i, 3 * i + 1, 3 * i + 2]], I32))}
        chains.append([build, accept, commit_call(library, pool, commit_inputs)])
        for call in chains[-1]:
            call()
        build.check(tree)
        names = ("node_token", "next_token", "next_sibling", "node_count")
        expected = tree_accept(
            **{n: tree[n] for n in names}, target_predict=predict, stop_token=np.zeros(0, I32),
            token_limit=np.array([99], I32), depth_limit=15,
        )  # fmt: skip
        accept.check(expected)
    graphs = [graph_of(chain) for chain in chains[:8]]
    table.add("chain build + accept + commit, N 65: one replay", replay_times(graphs, 1), 15.0)
    everything = graph_of([call for chain in chains for call in chain])
    table.add("  the same, 40 chains in one graph, per chain", replay_times([everything], LAUNCHES))


def host_builder(costs: list[list[float]], budget: int) -> tuple[list[int], Any]:
    """The heap and the visibility matrix of the published host-side builder (own transcription)."""
    depths, width = len(costs), len(costs[0])
    heap = [(costs[0][0], (0,), 0, 1, 0)]
    parents = [-1]
    while heap and len(parents) <= budget:
        cost, ranks, parent, depth, rank = heapq.heappop(heap)
        node = len(parents)
        parents.append(parent)
        row = costs[depth - 1]
        if rank + 1 < width:
            sibling = cost - row[rank] + row[rank + 1]
            heapq.heappush(heap, (sibling, (*ranks[:-1], rank + 1), parent, depth, rank + 1))
        if depth < depths:
            heapq.heappush(heap, (cost + costs[depth][0], (*ranks, 0), node, depth + 1, 0))
    visible = np.zeros((len(parents), len(parents)), bool)
    visible[0, 0] = True
    for node in range(1, len(parents)):
        visible[node] = visible[parents[node]]
        visible[node, node] = True
    return parents, visible


def time_host(table: Table) -> None:
    """The heap and the mask of the host-side builder."""
    for size in (64, 256, 1024):
        costs = (-rows_of("decisive", 0, (1, 15, size))[0].astype(np.float64)).tolist()
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            host_builder(costs, size)
            times.append((time.perf_counter() - begin) * 1e6)
        name = f"  published host builder, heap and mask only, budget {size}"
        table.add(name, (float(np.median(times)), float(np.percentile(times, 95))))


def load_floors(path: str | None) -> Any:
    """Load tree_floors.cu, and build it first if no library is named."""
    if path is None:
        path = str(Path(tempfile.mkdtemp()) / "tree_floors.so")
        source = str(Path(__file__).with_name("tree_floors.cu"))
        command = ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", source, "-o", path]
        subprocess.run(command, check=True)
    return ctypes.CDLL(path)


def main() -> None:
    """Time every library and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="+", help="libddtree_cuda.so; several are timed in turn")
    parser.add_argument("--floors", help="tree_floors.cu, built as a shared library")
    parser.add_argument("--json", help="where the numbers go")
    parser.add_argument("--quick", action="store_true", help="two kinds of rows only")
    options = parser.parse_args()

    torch.manual_seed(0)
    floors = load_floors(options.floors)
    results: Arrays = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "libraries": {}}
    results |= {"launches": LAUNCHES, "replays": REPLAYS}
    pool = torch.randint(0, 256, (61, 3 * LAUNCHES, 64, 1152), dtype=torch.uint8, device="cuda")
    for number, path in enumerate(options.library):
        library = ctypes.CDLL(str(Path(path).resolve()))
        table = Table()
        print(f"{path}\n{'':<58} {'median':>8} {'p95':>8}   us")
        for blocks, threads in ((1, 32), (132, 256)) if number == 0 else ():

            def empty(blocks: int = blocks, threads: int = threads) -> None:
                floors.floor_empty(blocks, threads, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

            name = f"  empty kernel, {blocks} x {threads} threads"
            table.add(name, replay_times([graph_of([empty] * LAUNCHES)], LAUNCHES))
        time_builds(table, library, options.quick or number > 0)
        time_accepts(table, library, floors)
        time_commits(table, library, pool)
        time_chain(table, library, pool)
        if number == 0:
            time_host(table)
        results["libraries"][path] = table.rows
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
