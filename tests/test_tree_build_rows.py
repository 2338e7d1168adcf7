"""tree_build refuses rows that rise, wherever they do, in each of its ways to load them, on the emulator."""

import numpy as np
import pytest

from harness.observation import Job
from harness.targets import Options, open_target

SHAPES = {  # L, K, budget
    "a warp for each": (3, 128, 64),
    "a warp for each, ragged": (3, 97, 64),
    "quads": (4, 96, 200),
    "one by one": (4, 37, 200),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_row_that_rises_anywhere(shape: tuple[int, int, int]) -> None:
    depths, width, budget = shape
    places = [(depth, rank) for depth in range(depths) for rank in range(1, width)]
    requests = len(places) + 1  # the last one is right
    rows = np.tile(-np.arange(1, width + 1, dtype=np.float32), (requests, depths, 1))
    for request, (depth, rank) in enumerate(places):
        rows[request, depth, rank] = np.nextafter(rows[request, depth, rank - 1], np.float32(0))
    inputs = {
        "topk_logprob": rows,
        "topk_token": np.zeros(rows.shape, np.int32),
        "root_token": np.zeros(requests, np.int32),
        "prefix_len": np.zeros(requests, np.int32),
    }
    seen = open_target("cpu", Options()).run_round(Job("tree_build", inputs, {"budget": budget}), 0)
    assert seen.status == "done"
    assert seen.outputs["tree_status"].tolist() == [1] * len(places) + [0]
