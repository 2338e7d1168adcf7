"""`harness show`: what it prints of a case, and what it says of an id that does not exist."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from rich.console import Console

from harness.case import AnyArray, Case
from harness.errors import UsageProblem
from harness.expect import expected_outputs
from harness.forest import trees
from harness.shapes import bind, kernel_named
from harness.show import render
from harness.store import write_set
from harness.store.manifest import SetInfo


def i32(*values: object) -> AnyArray:
    return np.array(values, dtype=np.int32)


def made(kernel: str, inputs: dict[str, AnyArray], **scalars: int | float) -> Case:
    return Case(
        case_id=f"{kernel}/by_hand/small-00000000",
        kernel=kernel,
        family="by_hand",
        flags=("best_first", "[bold]hostile[/bold]"),
        policy="exact",
        validity="valid",
        seed=7,
        inputs=inputs,
        scalars=scalars,
        expected=expected_outputs(kernel, inputs, scalars),
    )


def build_case() -> Case:
    logprob = np.array([[[-0.25, -0.5, -4.0], [-0.125, -2.0, -np.inf]]], dtype=np.float32)
    tokens = i32([[10, 11, 12], [20, 21, 22]])
    inputs = {"topk_logprob": logprob, "topk_token": tokens, "root_token": i32(5), "prefix_len": i32(3)}
    return made("tree_build", inputs, budget=5)


def accept_case() -> Case:
    inputs = {
        "node_token": i32([5, 10, 11, 20, 20, -1]),
        "next_token": i32([1, 3, 4, -1, -1, -1]),
        "next_sibling": i32([-1, 2, -1, -1, -1, -1]),
        "target_predict": i32([11, 0, 20, 0, 77, -1]),
        "node_count": i32(5),
        "stop_token": np.zeros(0, np.int32),
        "token_limit": i32(100),
    }
    return made("tree_accept", inputs, depth_limit=3)


def commit_case() -> Case:
    inputs = {
        "kv": np.arange(64, dtype=np.uint8).reshape(1, 2, 8, 4),
        "block_table": i32([0], [1]),
        "prefix_len": i32(1, 2),
        "accept_index": i32([0, 2, 3], [-1, -1, -1]),
        "accept_len": i32(2, -1),
    }
    return made("kv_commit", inputs)


def shown(case: Case, request: int | None = None) -> str:
    out = io.StringIO()
    dims = bind(kernel_named(case.kernel), case.inputs, case.scalars)
    Console(file=out, width=120).print(render(case, dims, request))
    return out.getvalue()


def test_scores_are_those_of_the_contract() -> None:
    (tree,) = trees(build_case())
    by_token = {(node.parent, node.token): node.score for node in tree.nodes}
    assert by_token[-1, 5] == 0.0
    assert by_token[0, 10] == -0.25
    assert by_token[1, 20] == -0.375
    assert by_token[0, 11] == -0.5
    scores = [node.score for node in tree.nodes]
    assert scores == sorted(scores, reverse=True, key=lambda score: score or 0.0)
    assert [node.index for node in tree.nodes] == list(range(6))


def test_build_is_shown_with_tokens_scores_and_hashes() -> None:
    text = shown(build_case())
    for words in (
        "token 20  score -0.375",
        "Dimensions",
        "L 2",
        "budget 5",
        "topk_logprob",
        "1 x 2 x 3",
        "sha256",
    ):
        assert words in text
    assert "[bold]hostile[/bold]" in text
    assert "unknown" in text


def test_accepted_path_is_marked() -> None:
    case = accept_case()
    (tree,) = trees(case)
    assert tree.path == (0, 2, 4)
    assert [node.parent for node in tree.nodes] == [-1, 0, 0, 1, 2]
    text = shown(case)
    assert "accepted path 0 > 2 > 4" in text
    marked = [line for line in text.splitlines() if line.endswith("accepted")]
    assert len(marked) == 2
    assert "4  token 20  predicts 77  accepted" in marked[1]


@pytest.mark.parametrize(("next_token", "loose"), [([0, 0, 0, 0, 0, 0], 4), ([1, 1, 9, -7, -1, -1], 2)])
def test_malformed_links_are_counted_not_followed(next_token: list[int], loose: int) -> None:
    case = accept_case()
    broken = made("tree_accept", {**case.inputs, "next_token": i32(next_token)}, depth_limit=3)  # type: ignore[dict-item]
    text = shown(broken)
    assert f"{loose} nodes hang on nothing" in text


def test_commit_shows_paths_only() -> None:
    text = shown(commit_case())
    assert "request 0  accepted path 0 > 2 > 3" in text
    assert "request 1  no tree" in text
    assert "request 0" not in shown(commit_case(), request=1)


def test_unknown_request_is_a_usage_problem() -> None:
    with pytest.raises(UsageProblem, match="requests 0 to 1, not 2"):
        shown(commit_case(), request=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show") / "set"
    write_set([build_case(), accept_case(), commit_case()], folder, SetInfo.here("smoke", 0))
    return folder


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("show", folder, "--case", "tree_accept/by_hand/small-00000000") == 0
    assert "accepted path 0 > 2 > 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case_id", "hint"),
    [
        ("tree_accept/by_hand/smal-00000000", "did you mean tree_accept/by_hand/small-00000000"),
        ("kv_commit", "did you mean kv_commit/by_hand/small-00000000"),
        ("zzz", "`harness list"),
        ("", "`harness list"),
    ],
)
def test_bad_id(folder: Path, capsys: pytest.CaptureFixture[str], case_id: str, hint: str) -> None:
    assert exit_code("show", folder, "--case", case_id) == 2
    captured = capsys.readouterr()
    assert hint in captured.err
    assert captured.out == ""


def test_bad_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("show", tmp_path, "--case", "x") == 3
    assert captured_one_line(capsys.readouterr().err)


def captured_one_line(text: str) -> bool:
    return text.count("\n") == 1
