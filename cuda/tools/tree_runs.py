"""What bench_trees.py times: the kernels, their chain, the whole step, and the peers."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import tree_inputs as made
from graph_timing import Times
from tree_calls import TAIL_PAGES, Call, Chain, Checked, Commit, Pool, Step
from tree_peers import Empty, ToldMoves, Walk, host_builder, lean_builder
from tree_results import GRID_KINDS
from tree_series import Arrays, Series

from harness.contract import NO_LIMIT
from harness.memory.buffers import Arena
from references import tree_accept, tree_build

I32 = np.int32
CHAIN_GRAPHS = 8  # replayed in turn
COMMITS = ("kv_commit from HBM", "kv_commit in L2", "told moves from HBM", "told moves in L2")
CHAINS = ("chain", "chain, not held", "chain, per chain in one graph", "build", "build + accept")


def builds(series: Series) -> None:
    """tree_build, by shape and kind of rows."""
    plan, widths = series.plan, series.plan.widths
    for batch, width in [(1, w) for w in widths] + [(b, widths[0]) for b in plan.batches if b > 1]:
        for kind in plan.kinds:
            name = f"tree_build {width}{'' if batch == 1 else f' x {batch}'} {kind}"
            if not series.wants(name):
                continue
            inputs = [made.tree_inputs(kind, i, batch, width) for i in range(plan.sets)]
            calls = [build_call(series, one, width) for one in inputs]
            series.graph(name, "tree_build", f"batch {batch}, L 15, K = budget {width}, {kind} rows", calls)


def build_call(series: Series, inputs: Arrays, budget: int) -> Call:
    """tree_build on one input set."""
    expected = tree_build(**inputs, budget=budget)
    return Call(series.engine, "tree_build", inputs, {"budget": budget}, expected)


def accepts(series: Series, floors: ctypes.CDLL | None) -> None:
    """tree_accept, and the walk by one thread on the same trees."""
    plan = series.plan
    for nodes in plan.nodes:
        for batch in plan.batches:
            if not series.wants(name := f"tree_accept {nodes} x {batch}"):
                continue
            inputs = f"batch {batch}, {nodes} nodes, {made.DEPTH} accepted, always the last sibling"
            trees = [made.last_sibling_tree(batch, nodes, i) for i in range(plan.sets)]
            expected = [tree_accept(**tree, depth_limit=made.DEPTH) for tree in trees]
            pairs = list(zip(trees, expected, strict=True))
            scalars = {"depth_limit": made.DEPTH}
            calls = [Call(series.engine, "tree_accept", tree, scalars, want) for tree, want in pairs]
            series.graph(name, "tree_accept", inputs, calls)
            if floors is not None:
                walks = [Walk(floors, series.space, tree, want) for tree, want in pairs]
                name = f"walk {nodes} x {batch}"
                series.graph(name, "tree_accept", f"one thread per request, int64 links; {inputs}", walks)


def commits(series: Series, floors: ctypes.CDLL | None) -> None:
    """kv_commit with rows from device memory and from L2, and the chain of three on the same pool."""
    plan = series.plan
    if not series.wants(*COMMITS, *CHAINS):
        return
    requests = max(plan.far_sets, plan.sets)
    pool = Pool(series.space, plan.layers, TAIL_PAGES * requests, made.PAGE_SLOTS, made.ROW_BYTES)
    if series.wants(*COMMITS):
        commits_alone(series, pool, requests, floors)
    if series.wants(*CHAINS):
        chains(series, pool)


def commits_alone(series: Series, pool: Pool, requests: int, floors: ctypes.CDLL | None) -> None:
    """Each request has rows of its own; the small arrays are shared, so that they stay in L2."""
    plan = series.plan
    inputs = [made.commit_inputs(i, requests) for i in range(plan.far_sets)]
    shared = {n: v for n, v in inputs[0].items() if n != "prefix_len"}
    shared["prefixes"] = np.concatenate([one["prefix_len"] for one in inputs])
    small = Arena(series.space, {n: v.nbytes for n, v in shared.items()}, 0)
    for name, value in shared.items():
        small.view(name, value.dtype, value.shape)[...] = value
    small.seal()
    at = {name: small.address(name) for name in shared}
    commits = [
        Commit(series.engine, pool, one, i, {**at, "prefix_len": at["prefixes"] + 4 * i})
        for i, one in enumerate(inputs)
    ]
    calls: dict[str, Sequence[Checked]] = {"kv_commit": commits}
    if floors is not None:
        pairs = zip(inputs, commits, strict=True)
        calls["told moves"] = [ToldMoves(floors, series.space, pool, one, commit) for one, commit in pairs]
    moved = f"{plan.layers} layers, 16 rows of {made.ROW_BYTES} bytes move, every fourth of 65 slots"
    far = f"{moved}; {plan.far_sets} requests in turn, the small arrays in L2"
    near = f"{moved}; the same rows every time"
    for name, sets in calls.items():
        if series.wants(f"{name} from HBM"):
            series.graph(f"{name} from HBM", "kv_commit", far, sets)
        if series.wants(f"{name} in L2"):
            series.graph(f"{name} in L2", "kv_commit", near, sets[:1], plan.sets)


def chains(series: Series, pool: Pool) -> None:
    """build, accept, commit of one request, N 65; the targets take the deepest path. And parts of it."""
    plan, section = series.plan, "The chain, one graph replay each"
    width = plan.widths[0]
    parts = [chain_calls(series, pool, i, width) for i in range(plan.sets)]
    what = f"batch 1, K = budget {width}, decisive rows, {plan.layers} layers, rows in L2"
    few = parts[:CHAIN_GRAPHS]
    series.replay("chain", section, what, [Chain(part) for part in few])
    with_launch = f"{what}; the host's launch of the graph included"
    series.replay("chain, not held", section, with_launch, [Chain(part) for part in few], held=False)
    series.graph("chain, per chain in one graph", section, what, [Chain(part) for part in parts])
    series.replay("build", section, "the first kernel alone", [Chain(part[:1]) for part in few])
    series.replay("build + accept", section, "the first two", [Chain(part[:2]) for part in few])


def chain_calls(series: Series, pool: Pool, number: int, budget: int) -> list[Checked]:
    """The three calls on the pages of request ``number``."""
    inputs = made.tree_inputs("decisive", number, 1, budget) | {"prefix_len": np.array([made.PREFIX], I32)}
    build = build_call(series, inputs, budget)
    tree = tree_build(**inputs, budget=budget)
    links = ("node_token", "next_token", "next_sibling", "node_count")
    given = {name: tree[name] for name in links} | {"target_predict": made.deepest_path(tree, number)}
    given |= {"stop_token": np.zeros(0, I32), "token_limit": np.full(1, NO_LIMIT, I32)}
    taken = tree_accept(**given, depth_limit=made.DEPTH)
    scalars = {"depth_limit": made.DEPTH}
    at = {name: build.address(name) for name in links}
    accept = Call(series.engine, "tree_accept", given, scalars, taken, at)
    table = {"block_table": TAIL_PAGES * number + np.arange(TAIL_PAGES, dtype=I32)[None]}
    moves = {"prefix_len": inputs["prefix_len"], **{n: taken[n] for n in ("accept_index", "accept_len")}}
    at = {"prefix_len": build.address("prefix_len")}
    at |= {name: accept.address(name) for name in ("accept_index", "accept_len")}
    return [build, accept, Commit(series.engine, pool, table | moves, number, at)]


def steps(series: Series, name: str) -> None:
    """One greedy step in one graph."""
    plan = series.plan
    if series.wants(name):
        inputs, scalars = made.step_inputs(plan.layers, plan.prefix, plan.heads, plan.widths[0])
        what = f"batch 1, N {plan.widths[0] + 1}, {plan.heads} heads, prefix {plan.prefix}, "
        what += f"one layer attends, {plan.layers} commit"
        step = Step(series.target, inputs, scalars)
        series.replay(name, "greedy_step, one graph replay each", what, [step])


def empties(series: Series, floors: ctypes.CDLL) -> None:
    """Kernels that do nothing: the price of a graph node and of a replay."""
    section = "Empty kernels"
    for blocks, threads in ((1, 32), (61, 384)):
        kernel = Empty(floors, series.space, blocks, threads)
        shape = f"{blocks} x {threads} threads"
        series.graph(f"empty kernel, {shape}", section, "a plain graph node", [kernel], series.plan.sets)
    one = [Empty(floors, series.space, 1, 32)]
    series.replay("graph of one empty kernel", section, "", one)
    four = "graph of four empty kernels"
    series.replay(four, section, "", one, calls=4)
    what = "the host's launch of the graph included"
    series.replay(f"{four}, not held", section, what, one, held=False, calls=4)


def hosts(series: Series) -> None:
    """The published builder's heap and mask on this machine's processor, and a leaner one beside it."""
    for width, kind in product(series.plan.widths, GRID_KINDS):
        inputs = [made.tree_inputs(kind, i, 1, width) for i in range(series.plan.host_replays)]
        rows = [(one["topk_logprob"][0], one["topk_token"][0].astype(np.int64)) for one in inputs]
        what = f"heap and visibility mask only, L 15, K = budget {width}, {kind} rows"
        host_series(
            series, f"host builder {width} {kind}", what, [(host_builder, *one, width) for one in rows]
        )
        lists = [(-logprob.astype(float)).tolist() for logprob, _ in rows]
        what = f"the same from lists, without ids, depths and child maps, budget {width}, {kind} rows"
        name = f"lean host builder {width} {kind}"
        host_series(series, name, what, [(lean_builder, one, width) for one in lists])


def host_series(series: Series, name: str, what: str, calls: Sequence[tuple[Any, ...]]) -> None:
    """Each of ``calls`` (a function and its arguments) once, after one that is not kept."""
    if not series.wants(name):
        return
    samples = []
    for function, *arguments in [calls[0], *calls]:
        begin = time.perf_counter()
        function(*arguments)
        samples.append(1e6 * (time.perf_counter() - begin))
    series.keep(name, "Published host builder", what, Times.of(samples[1:]), 1, 0, "host clock")
