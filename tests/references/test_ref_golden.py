"""The references against trees and walks of implementations that nobody here wrote (golden/README.md)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from references import tree_accept, tree_build

GOLDEN = Path(__file__).parent / "golden"
PUBLIC = json.loads((GOLDEN / "tree_build_public.json").read_text(encoding="utf-8"))


def build(lp, tokens, budget):
    return tree_build(
        topk_logprob=lp[None],
        topk_token=tokens[None],
        root_token=np.array([99], np.int32),
        prefix_len=np.array([10], np.int32),
        budget=budget,
    )


@pytest.mark.parametrize("case", PUBLIC, ids=[case["name"] for case in PUBLIC])
def test_public_vectors(case):
    lp = np.array([[float.fromhex(x) for x in row] for row in case["topk_logprob"]], np.float32)
    got = build(lp, np.array(case["topk_token"], np.int32), case["budget"])
    count = len(case["node_parent"])
    assert got["node_count"][0] == count
    assert got["node_token"][0, 1:count].tolist() == case["node_token"]
    assert got["node_depth"][0, 1:count].tolist() == case["node_depth"]
    assert got["node_parent"][0, :count].tolist() == case["node_parent"]


def test_published_builder_and_walk():
    with np.load(GOLDEN / "peer_trees.npz") as data:
        names = sorted({key.split("/")[0] for key in data})
        assert len(names) == 120
        for name in names:
            case = {key.split("/")[1]: data[key] for key in data if key.startswith(f"{name}/")}
            got = build(case["topk_logprob"], case["topk_token"], int(case["budget"]))
            count = len(case["node_parent"])
            assert got["node_count"][0] == count, name
            for key, first in (("node_token", 1), ("node_depth", 1), ("node_parent", 0)):
                np.testing.assert_array_equal(got[key][0, first:count], case[key], err_msg=f"{name} {key}")

            predict = np.full((1, int(case["budget"]) + 1), -1, np.int32)
            predict[0, :count] = case["target_predict"]
            walk = tree_accept(
                node_token=got["node_token"],
                next_token=got["next_token"],
                next_sibling=got["next_sibling"],
                target_predict=predict,
                node_count=got["node_count"],
                stop_token=np.zeros(0, np.int32),
                token_limit=np.array([2**31 - 1], np.int32),
                depth_limit=len(case["topk_logprob"]),
            )
            accepted = len(case["accept_index"])
            assert walk["accept_len"][0] == accepted - 1, name
            assert walk["accept_index"][0, :accepted].tolist() == case["accept_index"].tolist(), name
            assert (walk["accept_index"][0, accepted:] == -1).all()
            assert walk["bonus_token"][0] == case["bonus_token"], name
            emitted = [*case["node_token"][case["accept_index"][1:] - 1].tolist(), int(case["bonus_token"])]
            assert walk["out_token"][0, :accepted].tolist() == emitted, name
            assert walk["accept_status"][0] == walk["finished"][0] == 0
