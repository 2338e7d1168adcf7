"""tree_build on rows that crowd, tie and differ by almost nothing, against the reference, on the emulator."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from harness.observation import Job
from harness.targets import Options, open_target
from references.tree_build import tree_build

CompilePart = Callable[..., ctypes.CDLL]
F32 = npt.NDArray[np.float32]
KINDS = ("tiny", "split", "chain", "crowd", "repeated", "steps", "short")
SIZES = (  # B, L, K, budget
    (1, 3, 17, 32),
    (2, 15, 16, 64),
    (1, 32, 8, 128),
    (1, 15, 40, 129),
    (1, 17, 100, 300),
    (1, 15, 1, 64),
    (1, 32, 70, 256),
    (1, 30, 40, 700),
)


def rows(kind: str, seed: int, shape: tuple[int, int, int]) -> F32:
    """Log-probs [B,L,K] of one kind."""
    generator = np.random.default_rng(seed)
    uniform = generator.random(shape)
    if kind == "tiny":  # each row has a magnitude of its own, so bins of one row are beyond those of another
        costs = uniform * 10.0 ** generator.integers(-44, 2, shape[:2])[..., None]
    elif kind == "split":  # a few that cost next to nothing, beside others that are out of all proportion
        costs = uniform * 10.0 ** generator.integers(2, 37)
        costs[..., :2] = (1 + np.arange(2)[: shape[2]]) * 10.0 ** generator.integers(-44, -24)
    elif kind == "repeated":  # the same distinct values in each row: orders of ranks tie
        costs = np.broadcast_to(np.arange(shape[2]) / 16 + (np.arange(shape[2]) > 0), shape)
    elif kind == "steps":
        costs = generator.integers(0, 4, shape) * 10.0 ** -generator.integers(0, 25, shape[:2])[..., None]
    elif kind == "short":
        costs = np.where(uniform < 0.6, 8 * uniform, np.inf)
    else:  # long chains of rank 0; what leaves them is spread, or crowds
        spread = 8.0 if kind == "chain" else 10.0 ** -generator.integers(1, 6)
        costs = 1 + spread * uniform
        costs[..., 0] = uniform[..., 0] / 100
    sorted_costs: F32 = np.sort(costs, axis=-1).astype(np.float32)
    return np.float32(0) - sorted_costs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["forward", "reverse", "random:1"])
def test_equals_the_reference(kind: str, order: str) -> None:
    target = open_target("cpu", Options(order=order))
    for i, (batch, depth, width, budget) in enumerate(SIZES * 3):
        inputs = {
            "topk_logprob": rows(kind, i, (batch, depth, width)),
            "topk_token": np.arange(batch * depth * width, dtype=np.int32).reshape(batch, depth, width),
            "root_token": np.arange(batch, dtype=np.int32),
            "prefix_len": np.full(batch, 7, np.int32),
        }
        seen = target.run_round(Job("tree_build", inputs, {"budget": budget}), 0)
        assert seen.status == "done", (kind, i)
        for name, expected in tree_build(**inputs, budget=budget).items():
            assert np.array_equal(seen.outputs[name], expected), (kind, i, name)


def test_a_block_fits_every_device(compile_part: CompilePart, tmp_path: Path) -> None:
    """48 KB without asking for more; 99 KB on sm_120, where the last resort has to run; 227 KB elsewhere."""
    most = compile_part("tree_build/layout.cpp", tmp_path).most_bytes
    assert most(1, 1, 128) <= 48 * 1024
    assert most(0, 0, 1024) <= 99 * 1024
    assert most(1, 1, 1024) <= 227 * 1024


@pytest.fixture(scope="module")
def hard(compile_part: CompilePart, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """What tree_build does where candidates crowd."""
    library = compile_part("tree_build/score_reached.cpp", tmp_path_factory.mktemp("hard"))
    library.score_reached_of.restype = ctypes.c_double
    return library


@pytest.mark.parametrize("wanted", [1, 64, 255, 256])
@pytest.mark.parametrize("kind", ["even", "crowded", "tied"])
def test_a_better_threshold_is_the_score_of_the_last_one_wanted(
    hard: ctypes.CDLL, kind: str, wanted: int
) -> None:
    """One far below would let the candidates crowd again, until the slow search takes over."""
    scores = -np.random.default_rng(3).random(256)
    if kind == "crowded":
        scores[1:] = -1 + scores[1:] / 1000
    elif kind == "tied":
        scores = np.floor(scores * 8) / 8
    scores[0] = scores.max()
    array = (ctypes.c_double * scores.size)(*scores)
    lowest = ctypes.c_double(scores.min() - 0.1)
    found = hard.score_reached_of(array, scores.size, wanted, lowest)
    assert found == -np.sort(-scores)[wanted - 1]
