"""The report of cuda/tools/bench_attention.py: what counts as met, and what is written."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The module, which needs no GPU."""
    path = ROOT / "cuda" / "tools" / "attention_report.py"
    spec = importlib.util.spec_from_file_location("attention_report", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["attention_report"] = module  # its dataclasses look there
    spec.loader.exec_module(module)
    return module


def row(
    heads: int, nodes: int, prefix: int, ours: float, fa2: float | None, cascade: float = 1.5, **changes: Any
) -> dict[str, Any]:
    """One shape as the benchmark writes it; ``cascade`` is how many times as long that takes."""
    times = {"ours": {"min": ours, "median": ours, "p95": ours}}
    for name, taken in (("fa2", fa2), ("cascade", cascade * ours)):
        if taken is not None:
            times[name] = {"min": taken, "median": taken, "p95": taken}
    shape = f"1x{heads}x{nodes}x{prefix // 1024}k"
    rows = heads * nodes
    return {
        "shape": shape, "batch": 1, "heads": heads, "nodes": nodes, "prefix": prefix, "rows": rows,
        "times": times, "tflops": 400.0, "share_of_allowance": 0.8,
    } | changes  # fmt: skip


GOOD = [row(8, 17, 1024, 12.0, 18.0), row(16, 65, 8192, 50.0, 100.0), row(64, 257, 8192, 500.0, 500.0)]


def found(tool: ModuleType, rows: list[dict[str, Any]]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """(verdict, what missed) by the bar's first word."""
    return {
        verdict.bar.split()[0].rstrip(":"): (verdict.verdict, verdict.missed)
        for verdict in tool.verdicts(rows)
    }


def test_bars_are_met_at_their_edge(tool: ModuleType) -> None:
    """1.5 and 1.0 times fa2, 12 us: the limit itself is enough."""
    assert {verdict for verdict, _ in found(tool, GOOD).values()} == {"met"}


@pytest.mark.parametrize(
    ("bar", "bad"),
    [
        ("1.5", row(8, 65, 1024, 10.1, 15.0)),
        ("1.0", row(64, 17, 1024, 10.1, 10.0)),
        ("cascade", row(64, 65, 1024, 10.0, 20.0, cascade=1.49)),
        ("12", row(8, 17, 1024, 12.1, 40.0)),
        ("316", row(64, 17, 8192, 10.0, 20.0, tflops=315.9)),
        ("errors", row(64, 17, 1024, 10.0, 20.0, share_of_allowance=1.01)),
        ("errors", row(64, 17, 1024, 10.0, 20.0, share_of_allowance=float("nan"))),
    ],
)
def test_each_bar_can_be_missed(tool: ModuleType, bar: str, bad: dict[str, Any]) -> None:
    """One bad row is named by its bar, and by no other."""
    kept = [good for good in GOOD if good["shape"] != bad["shape"]]
    for name, (verdict, missed) in found(tool, [*kept, bad]).items():
        assert (verdict, missed) == (("missed", (bad["shape"],)) if name == bar else (verdict, ()))
        assert (verdict == "missed") == (name == bar)


def test_what_was_not_measured_is_not_met(tool: ModuleType) -> None:
    """No peer, or no row that a bar takes."""
    verdicts = found(tool, [row(16, 17, 1024, 12.0, None)])
    assert verdicts["1.5"] == verdicts["1.0"] == verdicts["12"] == verdicts["316"] == ("not measured", ())
    assert verdicts["errors"] == ("met", ())


def test_report_is_written_twice(tool: ModuleType, tmp_path: Path) -> None:
    """JSON for machines, Markdown with a line for every shape and every bar."""
    report = {"command": "python3 bench", "device": "a GPU", "method": ["a way"], "rows": GOOD}
    tool.write(report, tmp_path / "sub" / "attention")
    written = json.loads((tmp_path / "sub" / "attention.json").read_text())
    assert [verdict["verdict"] for verdict in written["bars"]] == ["met"] * len(tool.BARS)
    assert len(written["rows"]) == 3
    text = (tmp_path / "sub" / "attention.md").read_text()
    assert "| 1 | 8 | 17 | 1k | 136 | 12.0 | 12.0 | 400 | 51 % |" in text
    assert text.count("| met |") == len(tool.BARS) and "a GPU" in text and "    python3 bench" in text
