"""The series of bench_trees.py: what is called, on what, how often, checked before and after it is timed."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tree_inputs as made
from graph_timing import Enqueue, Stopwatch, Times
from tree_calls import Call, Chain, Checked, Commit, Pool, Step
from tree_peers import Empty, Walk, host_builder
from tree_results import Measurement, measured

from harness.case import AnyArray
from harness.contract import NO_LIMIT
from harness.memory.buffers import Arena
from harness.targets.base import Target
from references import tree_accept, tree_build

I32 = np.int32
Arrays = Mapping[str, AnyArray]
CHAIN_GRAPHS = 8
CHAINS = (
    "chain",
    "chain, not held",
    "chain, per chain in one graph",
    "build",
    "build + accept",
    "accept + commit",
)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    sets: int = 40  # input sets, and calls in one sample
    far_sets: int = 160  # of kv_commit from device memory: five times the L2
    replays: int = 60
    host_replays: int = 7
    widths: tuple[int, ...] = (64, 256, 1024)
    kinds: tuple[str, ...] = made.KINDS
    nodes: tuple[int, ...] = (65, 1025)
    batches: tuple[int, ...] = (1, 32)
    layers: int = 61
    prefix: int = 2048
    heads: int = 16


class WrongResult(Exception):
    """A buffer does not hold what the references say: there is no time."""


class Series:
    """Measurements of one library, as they come; ``only`` leaves out names that do not contain it."""

    def __init__(self, target: Target, plan: Plan, only: str, show: Callable[[Measurement], None]) -> None:
        self.target, self.plan, self._only, self._show = target, plan, only, show
        self.watch = Stopwatch(target)
        self.engine, self.space = self.watch.engine, self.watch.space
        self.measurements: list[Measurement] = []

    def wants(self, *names: str) -> bool:
        """True where one of ``names`` is asked for."""
        return any(self._only in name for name in names)

    def graph(self, name: str, section: str, inputs: str, sets: Sequence[Checked], repeat: int = 1) -> None:
        """All ``sets`` in one graph, ``repeat`` times over."""
        self._stage(sets, 0)
        once = self.watch.capture([one.call for one in sets])
        graph = once if repeat == 1 else self.watch.capture([one.call for one in sets] * repeat)
        self._timed(name, section, inputs, sets, [graph], repeat * len(sets), [once])

    def replay(
        self, name: str, section: str, inputs: str, sets: Sequence[Checked], held: bool = True, calls: int = 1
    ) -> None:
        """One graph for each of ``sets``; a sample is the replay of one of them."""
        self._stage(sets, 0)
        graphs = [self.watch.capture([one.call] * calls) for one in sets]
        self._timed(name, section, inputs, sets, graphs, 1, graphs, held)

    def _timed(
        self, name: str, section: str, inputs: str, sets: Sequence[Checked], graphs: Sequence[Enqueue],
        calls: int, once: Sequence[Enqueue], held: bool = True,
    ) -> None:  # fmt: skip
        self._stage(sets, 0)
        self._check(name, "before timing", sets, once)
        self._stage(sets, 1)
        times = self.watch.samples(graphs, calls, self.plan.replays, held)
        if any(one.in_place for one in sets):
            self._stage(sets, 1)
        else:
            once = ()
        self._check(name, "after timing", sets, once)
        method = self.watch.quantity + ("" if held else ", not held")
        self.keep(name, section, inputs, times, calls, len(sets), method)

    def keep(
        self, name: str, section: str, inputs: str, times: Times, calls: int, sets: int, method: str
    ) -> None:
        """Add one measurement."""
        made_of = measured(name, section, inputs, times, method=method, calls=calls, sets=sets)
        self.measurements.append(made_of)
        self._show(made_of)

    def _stage(self, sets: Sequence[Checked], poison: int) -> None:
        for number, one in enumerate(sets):
            one.stage(poison + number)

    def _check(self, name: str, when: str, sets: Sequence[Checked], once: Sequence[Enqueue]) -> None:
        for graph in once:
            self.watch.once(graph)
        for number, one in enumerate(sets):
            if wrong := one.wrong():
                raise WrongResult(f"{name}, input set {number}, {when}: {wrong}")


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


def commits(series: Series) -> None:
    """kv_commit with rows from device memory and from L2, and the chain of three on the same pool."""
    plan = series.plan
    if not series.wants("kv_commit from HBM", "kv_commit in L2", *CHAINS):
        return
    requests = max(plan.far_sets, plan.sets)
    pool = Pool(series.space, plan.layers, made.TAIL_PAGES * requests, made.PAGE_SLOTS, made.ROW_BYTES)
    inputs = [made.commit_inputs(i, requests) for i in range(plan.far_sets)]
    shared = {n: v for n, v in inputs[0].items() if n != "prefix_len"}
    shared["prefixes"] = np.concatenate([one["prefix_len"] for one in inputs])
    small = Arena(series.space, {n: v.nbytes for n, v in shared.items()}, 0)
    for name, value in shared.items():
        small.view(name, value.dtype, value.shape)[...] = value
    small.seal()
    at = {name: small.address(name) for name in shared}
    calls = [
        Commit(series.engine, pool, one, i, {**at, "prefix_len": at["prefixes"] + 4 * i})
        for i, one in enumerate(inputs)
    ]
    moved = f"{plan.layers} layers, 16 rows of {made.ROW_BYTES} bytes move, every fourth of 65 slots"
    if series.wants("kv_commit from HBM"):
        what = f"{moved}; {plan.far_sets} requests in turn, the small arrays in L2"
        series.graph("kv_commit from HBM", "kv_commit", what, calls)
    if series.wants("kv_commit in L2"):
        series.graph(
            "kv_commit in L2", "kv_commit", f"{moved}; the same rows every time", calls[:1], plan.sets
        )
    if series.wants(*CHAINS):
        chains(series, pool)


def chains(series: Series, pool: Pool) -> None:
    """build, accept, commit of one request, N 65; the targets take the deepest path. And parts of it."""
    plan, section = series.plan, "The chain, one graph replay each"
    width = plan.widths[0]
    parts = [chain_calls(series, pool, i, width) for i in range(plan.sets)]
    what = f"batch 1, K = budget {width}, decisive rows, {plan.layers} layers, rows in L2"
    few = [Chain(part) for part in parts[:CHAIN_GRAPHS]]
    series.replay("chain", section, what, few)
    series.replay(
        "chain, not held", section, f"{what}; the host's launch of the graph included", few, held=False
    )
    series.graph("chain, per chain in one graph", section, what, [Chain(part) for part in parts])
    series.replay(
        "build", section, "its first kernel alone", [Chain(part[:1]) for part in parts[:CHAIN_GRAPHS]]
    )
    series.replay(
        "build + accept", section, "its first two", [Chain(part[:2]) for part in parts[:CHAIN_GRAPHS]]
    )


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
    table = {"block_table": made.TAIL_PAGES * number + np.arange(made.TAIL_PAGES, dtype=I32)[None]}
    moves = {"prefix_len": inputs["prefix_len"], **{n: taken[n] for n in ("accept_index", "accept_len")}}
    at = {"prefix_len": build.address("prefix_len")}
    at |= {name: accept.address(name) for name in ("accept_index", "accept_len")}
    return [build, accept, Commit(series.engine, pool, table | moves, number, at)]


def steps(series: Series, name: str) -> None:
    """One greedy step in one graph."""
    plan = series.plan
    if series.wants(name):
        inputs, scalars = made.step_inputs(plan.layers, plan.prefix, plan.heads, plan.widths[0])
        what = (
            f"batch 1, N {plan.widths[0] + 1}, {plan.heads} heads, prefix {plan.prefix}, one layer attends, "
        )
        what += f"{plan.layers} commit"
        series.replay(
            name, "greedy_step, one graph replay each", what, [Step(series.target, inputs, scalars)]
        )


def empties(series: Series, floors: ctypes.CDLL) -> None:
    """Kernels that do nothing: the price of a graph node and of a replay."""
    section = "Empty kernels"
    for blocks, threads in ((1, 32), (61, 384)):
        kernel = Empty(floors, series.space, blocks, threads)
        shape = f"{blocks} x {threads} threads"
        series.graph(f"empty kernel, {shape}", section, "a plain graph node", [kernel], series.plan.sets)
    one = Empty(floors, series.space, 1, 32)
    series.replay("graph of one empty kernel", section, "", [one])
    series.replay("graph of four empty kernels", section, "", [one], calls=4)
    series.replay(
        "graph of four empty kernels, not held",
        section,
        "the host's launch of the graph included",
        [one],
        held=False,
        calls=4,
    )


def hosts(series: Series) -> None:
    """The published builder's heap and mask on this machine's processor."""
    for width in series.plan.widths:
        if not series.wants(name := f"host builder {width}"):
            continue
        samples = []
        for number in range(series.plan.host_replays):
            costs = (
                -made.tree_inputs("decisive", number, 1, width)["topk_logprob"][0].astype(float)
            ).tolist()
            begin = time.perf_counter()
            parents, visible = host_builder(costs, width)
            samples.append(1e6 * (time.perf_counter() - begin))
        what = f"heap and visibility mask only, L 15, K = budget {width}, decisive rows"
        series.keep(name, "Published host builder", what, Times.of(samples), 1, 0, "host clock")
