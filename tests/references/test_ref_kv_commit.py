"""kv_commit against a dictionary of slots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ref_oracles import commit_by_dictionary

from references import kv_commit


def i32(*values):
    return np.array(values, np.int32)


@settings(max_examples=120, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3), st.sampled_from([1, 2, 3, 7, 16]),
    st.integers(1, 9), st.integers(0, 8), st.sampled_from(["u1", "<u2", "<f4", "<i8"]),
)  # fmt: skip
def test_matches_dictionary(seed, batch, layers, slots, row, depth, dtype):
    rng = np.random.default_rng(seed)
    nodes = depth + int(rng.integers(1, 20))
    prefix = rng.integers(0, 40, batch).astype(np.int32)
    pages = [-(-(int(p) + nodes) // slots) for p in prefix]
    pool = rng.permutation(sum(pages) + 2).astype(np.int32)
    table = np.full((batch, max(pages) + 1), -7, np.int32)  # unmapped entries hold anything
    for b in range(batch):
        table[b, : pages[b]] = pool[sum(pages[:b]) :][: pages[b]]
    kv = rng.integers(0, 256, (layers, len(pool), slots, row * np.dtype(dtype).itemsize), np.uint8).view(
        dtype
    )
    length = rng.integers(-1, depth + 1, batch).astype(np.int32)
    index = np.full((batch, depth + 1), -1, np.int32)
    for b in range(batch):
        if length[b] >= 0:
            rest = np.sort(rng.choice(np.arange(1, nodes), length[b], replace=False))
            index[b, : length[b] + 1] = [0, *rest]
        else:
            table[b] = 2**31 - 1  # an inactive request's table is not read
    before = kv.copy()
    got = kv_commit(kv=kv, block_table=table, prefix_len=prefix, accept_index=index, accept_len=length)
    assert kv.tobytes() == before.tobytes()
    want = commit_by_dictionary(kv, table, prefix, index, length)
    assert got["kv"].dtype == kv.dtype and got["kv"].shape == kv.shape
    assert {k: got["kv"][k].tobytes() for k in want} == want
    np.testing.assert_array_equal(got["new_len"], prefix + length + 1)
    assert got["new_len"].dtype == np.int32


def test_overlap_reads_old_rows():
    kv = np.arange(10, dtype=np.uint8).reshape(1, 5, 2, 1)
    got = kv_commit(
        kv=kv,
        block_table=i32([4, 2, 0]),
        prefix_len=i32(1),
        accept_index=i32([0, 2, 3, 4]),
        accept_len=i32(3),
    )
    # slots 0..5 are rows 8 9 4 5 0 1; slots 1..4 take the old slots 1 3 4 5
    assert got["kv"].ravel().tolist() == [1, 1, 2, 3, 5, 0, 6, 7, 8, 9]
    assert got["new_len"].tolist() == [5]


def test_nan_payloads_move_as_bytes():
    kv = np.array([0x7FA00001, 0xFFC12345, 3], np.uint32).view(np.float32).reshape(1, 3, 1, 1)
    got = kv_commit(
        kv=kv, block_table=i32([0, 1, 2]), prefix_len=i32(0), accept_index=i32([0, 1]), accept_len=i32(1)
    )
    assert got["kv"].tobytes() == kv.tobytes()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"accept_len": i32(3)}, r"accept_len\[0\]: got 3, want -1..2"),
        ({"accept_len": i32(-2)}, r"accept_len\[0\]: got -2"),
        ({"accept_index": i32([1, 2, -1])}, r"accept_index\[0\]: got \[1, 2\], want 0 and then rising"),
        ({"accept_index": i32([0, 0, -1])}, r"accept_index\[0\]: got \[0, 0\]"),
        ({"prefix_len": i32(-1)}, r"prefix_len\[0\]: got -1"),
        ({"prefix_len": i32(5)}, "block_table: request 0 has 1 pages of 4 slots, want slots 5..7"),
        ({"block_table": i32([3])}, r"block_table: got page 3 in request 0, want 0\.\.1"),
        ({"block_table": i32([-1])}, "block_table: got page -1"),
        ({"kv": np.zeros((2, 4, 3), np.uint8)}, r"kv: got uint8\[2, 4, 3\], want any\[Y, G, S, R\]"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"kv": np.zeros((1, 2, 4, 3), np.uint8), "block_table": i32([1]), "prefix_len": i32(0),
                 "accept_index": i32([0, 2, -1]), "accept_len": i32(1)}  # fmt: skip
    assert kv_commit(**arguments)["new_len"].tolist() == [2]
    with pytest.raises(ValueError, match=message):
        kv_commit(**(arguments | change))
