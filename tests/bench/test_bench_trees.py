"""The tool that times the tree kernels on a GPU: all of it that needs none, on the emulated library."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from harness.targets.locate import own_library
from references import kv_commit, tree_accept, tree_build, unpack_mask

ROOT = Path(__file__).resolve().parents[2]
TOOLS = str(ROOT / "cuda" / "tools")
if TOOLS not in sys.path:
    sys.path.append(TOOLS)
tool: ModuleType = __import__("bench_trees")
import graph_timing  # noqa: E402
import tree_inputs as made  # noqa: E402
import tree_peers  # noqa: E402
import tree_results  # noqa: E402
import tree_runs  # noqa: E402
import tree_series  # noqa: E402

TINY = tree_series.Plan(
    sets=2, far_sets=3, replays=3, host_replays=2, widths=(8,), kinds=("decisive", "softmax", "zero"),
    nodes=(65,), batches=(1, 2), layers=2, prefix=70, heads=2,
)  # fmt: skip


@pytest.mark.parametrize("kind", made.KINDS)
def test_rows_are_rows_of_log_probs(kind: str) -> None:
    rows = made.rows_of(kind, 3, (2, 15, 64))
    assert rows.shape == (2, 15, 64)
    assert rows.dtype == np.float32
    assert (rows <= 0).all()
    assert (np.diff(rows) <= 0).all()
    on_grid = (np.ldexp(rows.astype(float), 20) % 1 == 0).all()
    assert on_grid == (kind not in ("off_grid", "softmax"))
    other = made.rows_of(kind, 4, (2, 15, 64))
    assert (rows == other).all() == (kind in ("equal", "zero"))


@pytest.mark.parametrize("nodes", [65, 1025])
def test_the_last_sibling_is_always_accepted(nodes: int) -> None:
    tree = made.last_sibling_tree(2, nodes, 7)
    taken = tree_accept(**tree, depth_limit=15)
    assert taken["accept_len"].tolist() == [15, 15]
    path = taken["accept_index"][0]
    assert path[-1] == nodes - 1
    assert (tree["next_sibling"][0, path[1:]] == -1).all()


def test_sixteen_rows_move_on_pages_of_their_own() -> None:
    pages = set()
    for number in range(3):
        inputs = made.commit_inputs(number, 3)
        first = int(inputs["prefix_len"][0]) // made.PAGE_SLOTS
        tail = inputs["prefix_len"][0] + np.arange(65)
        assert set(tail // made.PAGE_SLOTS) == {first, first + 1}
        pages |= {first, first + 1}
        kv = np.arange(6 * made.PAGE_SLOTS, dtype=np.int64).reshape(1, 6, made.PAGE_SLOTS, 1)
        moved = kv_commit(kv=kv, **inputs)["kv"] != kv
        assert moved.sum() == 16
    assert pages == set(range(6))


def test_far_rows_exceed_five_times_the_cache() -> None:
    """Of an H200, 60 MB; rows that are both read and written are counted once."""
    plan = tree_series.Plan()
    path = made.commit_inputs(0, 1)["accept_index"][0]
    rows = len(set(path[1:].tolist()) | set(range(1, len(path))))
    assert plan.far_sets * rows * plan.layers * made.ROW_BYTES > 5 * 60 * 2**20


@pytest.mark.parametrize("kind", ["even", "decisive", "flat", "mixed"])
@pytest.mark.parametrize("budget", [16, 64])
def test_the_host_builders_make_the_tree_of_the_reference(kind: str, budget: int) -> None:
    inputs = made.tree_inputs(kind, 1, 1, budget)
    tree = tree_build(**inputs, budget=budget)
    logprob, token = inputs["topk_logprob"][0], inputs["topk_token"][0].astype(np.int64)
    built = [
        tree_peers.host_builder(logprob, token, budget),
        tree_peers.lean_builder((-logprob.astype(float)).tolist(), budget),
    ]
    for parents, visible in built:
        assert parents == tree["node_parent"][0].tolist()
        assert (visible == unpack_mask(tree["tree_mask"], budget + 1)[0]).all()


def test_times_of_samples() -> None:
    times = graph_timing.Times.of([4.0, 1.0, 2.0, 3.0])
    assert (times.min, times.median, times.count) == (1.0, 2.5, 4)
    assert 3.8 < times.p95 <= 4.0


def named(name: str, median: float, method: str = "graph replay") -> tree_results.Measurement:
    times = graph_timing.Times(median, median, median, 60)
    return tree_results.measured(name, "a section", "inputs", times, method=method, calls=40, sets=40)


def test_bars() -> None:
    assert named("chain", 15.0).met is True
    assert named("chain", 15.1).met is False
    assert named("tree_build 64 x 32 flat", 12.1).met is False
    assert named("tree_build 64 mixed", 90.0).met is None
    assert named("chain", 1.0, "emulated").bar_us is None
    assert {bar for name, bar in tree_results.BARS.items() if name.startswith("tree_build 1024 ")} == {30.0}


def test_ratios_are_of_one_run() -> None:
    fast, slow = named("tree_accept 65 x 1", 2.0), named("walk 65 x 1", 8.0)
    assert tree_results.ratios_of([fast, slow])[0].met
    assert not tree_results.ratios_of([fast, named("walk 65 x 1", 7.9)])[0].met
    assert tree_results.ratios_of([fast]) == ()
    assert tree_results.ratios_of([fast, replace(slow, method="emulated")]) == ()
    names = {name for slower, faster, _ in tree_results.RATIO_BARS for name in (slower, faster)}
    assert all(name.startswith(("host", "walk")) or name in tree_results.BARS for name in names)
    stated = tree_results.ratios_of([named("host builder 64 flat", 90.0), named("tree_build 64 flat", 3.0)])
    assert [(one.times, one.bar, one.met) for one in stated] == [(30.0, None, None)]


def test_the_whole_run_on_the_emulated_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = own_library("cpu")
    run = tool.measure(library, library, TINY, "")
    tree_results.write(tmp_path, run)
    body = json.loads((tmp_path / "trees.json").read_text())
    text = (tmp_path / "trees.md").read_text()
    assert text == tree_results.markdown(body)
    names = [m["name"] for m in body["measurements"]]
    assert len(set(names)) == len(names)
    wanted = [
        "tree_build 8 decisive",
        "tree_build 8 x 2 zero",
        "host builder 8 decisive",
        "lean host builder 8 flat",
        "tree_accept 65 x 2",
    ]
    wanted += ["kv_commit from HBM", "kv_commit in L2", "chain", "greedy_step"]
    wanted += ["greedy_step without dependent launches"]
    assert not set(wanted) - set(names)
    for m in body["measurements"]:
        assert m["bar_us"] is None
        assert 0 < m["min_us"] <= m["median_us"] <= m["p95_us"]
        assert f"| {m['name']}" in text
        assert m["sets"] > 0 or m["method"] == "host clock"
    assert set(body["clocks"]["before"]) == {"unavailable"}
    assert "kv_commit in L2" in capsys.readouterr().out


def test_every_bar_has_a_measurement() -> None:
    """Of the plan that a run on a GPU has."""
    plan = tree_series.Plan()
    builds = {f"tree_build {w} {k}" for w in plan.widths for k in plan.kinds}
    builds |= {f"tree_build 64 x 32 {k}" for k in plan.kinds}
    accepts = {f"tree_accept {n} x {b}" for n in plan.nodes for b in plan.batches}
    others = {"kv_commit from HBM", "kv_commit in L2", *tree_runs.CHAINS}
    assert not set(tree_results.BARS) - builds - accepts - others


@pytest.mark.parametrize("part", ["tree_build", "tree_accept", "kv_commit", "chain", "greedy_step"])
def test_a_wrong_result_has_no_time(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that says something else is as good as a kernel that does."""
    import tree_calls

    def spoiled(function, name):  # type: ignore[no-untyped-def]
        def wrong(**arguments):  # type: ignore[no-untyped-def]
            outputs = function(**arguments)
            outputs[name] = outputs[name] + np.ones(1, outputs[name].dtype)
            return outputs

        return wrong

    if part == "tree_build":
        monkeypatch.setattr(tree_runs, "tree_build", spoiled(tree_build, "position"))
    elif part == "tree_accept":
        monkeypatch.setattr(tree_runs, "tree_accept", spoiled(tree_accept, "finished"))
    elif part == "greedy_step":
        expected = tree_calls.expected_outputs
        monkeypatch.setattr(
            tree_calls, "expected_outputs", lambda *a: {**expected(*a), "new_len": np.zeros((1, 1), np.int32)}
        )
    else:
        monkeypatch.setattr(tree_calls, "kv_commit", spoiled(kv_commit, "kv"))
    only = {"kv_commit": "kv_commit from"}.get(part, part)
    with pytest.raises(tree_series.WrongResult, match="before timing"):
        tool.measure(own_library("cpu"), None, TINY, only)
