"""verify_attn against a blocked online softmax over a dictionary of slots, and against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ref_oracles import attention_by_slots, make_rows

import references.verify_attn  # noqa: F401  (the module, to shrink its chunk)
from references import bf16_to_float64, float_to_bf16, tree_build, unpack_mask, verify_attn

NAN, HUGE = 0x7FC1, 0x7F7F


def i32(*values):
    return np.array(values, np.int32)


def make_case(seed, *, mla, prefixes, counts, nodes, heads=2, kv_heads=1, dk=12, dv=8, slots=3, spread=1.0):
    """A batch with random masks; every row of the pool that nobody sees is NaN or huge."""
    rng = np.random.default_rng(seed)
    batch, row = len(prefixes), dk if mla else kv_heads * (dk + dv)
    pages = [-(-(p + nodes) // slots) for p in prefixes]
    pool = rng.permutation(sum(pages) + 2)
    table = np.full((batch, max(pages)), 2**31 - 1, np.int32)
    kv = np.where(rng.random((len(pool), slots, row)) < 0.5, NAN, HUGE).astype(np.uint16)
    mask = rng.integers(0, 2**32, (batch, nodes, (nodes + 31) // 32), dtype=np.uint32)
    mask[rng.random((batch, nodes)) < 0.2] = 0
    q = float_to_bf16(rng.standard_normal((batch, nodes, heads, dk)) * spread)
    for b in range(batch):
        table[b, : pages[b]] = pool[sum(pages[:b]) :][: pages[b]]
        bits = unpack_mask(mask[b], nodes)[: counts[b], : counts[b]]
        seen = [*range(prefixes[b] if counts[b] else 0), *(prefixes[b] + np.flatnonzero(bits.any(axis=0)))]
        for slot in seen:
            kv[table[b, slot // slots], slot % slots] = float_to_bf16(rng.standard_normal(row))
        q[b, counts[b] :] = NAN
        if counts[b] == 0:
            table[b] = -5
    return {"q": q, "kv": kv, "block_table": table, "prefix_len": i32(*prefixes), "node_count": i32(*counts),
            "tree_mask": mask, "Hkv": kv_heads, "Dv": dv, "scale": 0.37}  # fmt: skip


def close(got, want):
    np.testing.assert_array_equal(got["visible"], want["visible"])
    for name in ("out", "out_m", "lse", "lse_d"):
        assert got[name].dtype == np.float64 and got[name].shape == want[name].shape
    np.testing.assert_array_equal(
        got["lse"] == -np.inf, want["visible"][..., None].repeat(got["lse"].shape[2], 2) == 0
    )
    seen = want["lse"] > -np.inf
    for name, bound in (("out", 1e-12 * want["out_m"]), ("out_m", 1e-12 * want["out_m"])):
        assert (np.abs(got[name] - want[name]) <= bound).all(), name
    assert (np.abs(got["lse"][seen] - want["lse"][seen]) <= 1e-12 * (1 + np.abs(want["lse"][seen]))).all()
    np.testing.assert_allclose(got["lse_d"], want["lse_d"], rtol=1e-12, atol=0)


LAYOUTS = [
    {"mla": True, "heads": 4, "kv_heads": 1, "dk": 20, "dv": 16},
    {"mla": True, "heads": 1, "kv_heads": 1, "dk": 9, "dv": 9},
    {"mla": False, "heads": 6, "kv_heads": 2, "dk": 8, "dv": 5},
    {"mla": False, "heads": 3, "kv_heads": 3, "dk": 4, "dv": 4},
    {"mla": False, "heads": 4, "kv_heads": 1, "dk": 16, "dv": 1},
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("slots", [1, 4, 16])
def test_matches_online_softmax(layout, slots):
    case = make_case(1, prefixes=[0, 5, 33, 9, 0], counts=[4, 7, 9, 0, 1], nodes=9, slots=slots, **layout)
    close(verify_attn(**case), attention_by_slots(case, 7))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(LAYOUTS), st.integers(1, 70), st.integers(0, 40),
    st.integers(1, 9), st.sampled_from([0.0, 0.3, 1.0, 30.0]),
)  # fmt: skip
def test_matches_online_softmax_anywhere(seed, layout, nodes, prefix, slots, spread):
    count = seed % (nodes + 1)
    case = make_case(
        seed, prefixes=[prefix], counts=[count], nodes=nodes, slots=slots, spread=spread, **layout
    )
    close(verify_attn(**case), attention_by_slots(case, 16))


def test_two_passes_over_chunks(monkeypatch):
    import sys

    case = make_case(3, mla=False, prefixes=[50, 3], counts=[5, 5], nodes=5, heads=4, kv_heads=2)
    monkeypatch.setattr(sys.modules["references.verify_attn"], "CHUNK", 7)
    close(verify_attn(**case), attention_by_slots(case, 5))


def test_a_long_prefix():
    case = make_case(4, mla=True, prefixes=[9000], counts=[2], nodes=2, heads=1, slots=256)
    close(verify_attn(**case), attention_by_slots(case, 64))


def test_largest_tree_and_its_paths():
    """1,025 nodes: a sample of rows, chosen by ``rows``, against the oracle on a real tree."""
    rng = np.random.default_rng(6)
    tree = tree_build(
        topk_logprob=make_rows(rng, (1, 15, 64), "smooth"), topk_token=np.zeros((1, 15, 64), np.int32),
        root_token=i32(1), prefix_len=i32(20), budget=1024,
    )  # fmt: skip
    case = make_case(6, mla=True, prefixes=[20], counts=[1025], nodes=1025, heads=1, slots=64)
    case["kv"] = float_to_bf16(rng.standard_normal(case["kv"].shape))
    case["tree_mask"] = tree["tree_mask"]
    whole = verify_attn(**case)
    np.testing.assert_array_equal(whole["visible"], 21 + tree["node_depth"])
    rows = rng.random((1, 1025)) < 0.02
    some = verify_attn(**case, rows=rows)
    for name, value in some.items():
        assert not value[~rows].any() if name != "lse" else (value[~rows] == -np.inf).all()
        np.testing.assert_allclose(value[rows], whole[name][rows], rtol=1e-11, atol=1e-13)
    want = attention_by_slots(case | {"tree_mask": np.where(rows[..., None], tree["tree_mask"], 0)}, 8)
    np.testing.assert_allclose(some["out"][rows], want["out"][rows], rtol=1e-11, atol=1e-13)


def test_rows_never_touch_what_they_do_not_see():
    """Rows that only unchosen nodes see may be hostile."""
    case = make_case(7, mla=True, prefixes=[4], counts=[6], nodes=6)
    case["tree_mask"][:] = (1 << np.arange(6, dtype=np.uint32))[:, None]
    case["kv"] = float_to_bf16(np.random.default_rng(0).standard_normal(case["kv"].shape))
    whole = verify_attn(**case)
    case["kv"][case["block_table"][0, 2], 1] = NAN  # slot 7: node 3
    some = verify_attn(**case, rows=np.arange(6)[None] != 3)
    assert np.isfinite(some["out"]).all() and some["visible"].tolist() == [[5, 5, 5, 0, 5, 5]]
    np.testing.assert_allclose(some["out"][0, 4:], whole["out"][0, 4:], rtol=1e-12)
    poisoned = verify_attn(**case)  # a broken precondition stays with the node that sees it
    assert np.isnan(poisoned["out"][0, 3]).all() and np.isnan(poisoned["lse"][0, 3]).all()
    others = [0, 1, 2, 4, 5]
    np.testing.assert_allclose(poisoned["out"][0, others], whole["out"][0, others], rtol=1e-12)


def test_single_key_gives_its_value():
    case = make_case(8, mla=True, prefixes=[0], counts=[3], nodes=3)
    case["tree_mask"][0, :, 0] = [1, 2, 0xFFFFFFF8]  # bits past node_count are not keys
    case["kv"] = float_to_bf16(np.random.default_rng(0).standard_normal(case["kv"].shape))
    got = verify_attn(**case)
    assert got["visible"].tolist() == [[1, 1, 0]]
    for i in (0, 1):
        row = bf16_to_float64(case["kv"][case["block_table"][0, 0], i])
        np.testing.assert_array_equal(got["out"][0, i], np.tile(row[:8], (2, 1)))
        np.testing.assert_array_equal(got["out_m"][0, i], np.tile(abs(row[:8]), (2, 1)))
        s = bf16_to_float64(case["q"][0, i]) @ row * float(np.float32(0.37))
        np.testing.assert_allclose(got["lse"][0, i], s, rtol=1e-13)
    assert not got["out"][0, 2].any() and (got["lse"][0, 2] == -np.inf).all() and not got["lse_d"][0, 2].any()


def test_extreme_values_stay_finite():
    case = make_case(9, mla=True, prefixes=[3], counts=[2], nodes=2)
    case["kv"][:] = HUGE
    case["q"][:] = HUGE
    got = verify_attn(**case)
    np.testing.assert_allclose(got["out"], bf16_to_float64(case["kv"])[0, 0, 0], rtol=1e-12)
    assert np.isfinite(got["lse"]).all()
    zero = verify_attn(**(case | {"scale": 0.0}))
    np.testing.assert_allclose(zero["lse"][0, 0], np.log(zero["visible"][0, 0]), rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matches_torch(layout):
    case = make_case(11, prefixes=[21], counts=[9], nodes=9, **layout)
    got = verify_attn(**case)
    heads, share, dk, dv = layout["heads"], layout["heads"] // layout["kv_heads"], layout["dk"], layout["dv"]
    slots = np.arange(30)
    rows = bf16_to_float64(case["kv"][case["block_table"][0, slots // 3], slots % 3])
    see = np.hstack([np.ones((9, 21), bool), unpack_mask(case["tree_mask"][0], 9)])
    rows[~see.any(axis=0)] = 0.0
    first = 0 if layout["mla"] else layout["kv_heads"] * dk
    key = np.stack([rows[:, h // share * dk :][:, :dk] for h in range(heads)])
    value = np.stack(
        [rows[:, first + (0 if layout["mla"] else h // share * dv) :][:, :dv] for h in range(heads)]
    )
    q = bf16_to_float64(case["q"][0]).swapaxes(0, 1).copy()
    want = torch.nn.functional.scaled_dot_product_attention(
        torch.from_numpy(q), torch.from_numpy(key), torch.from_numpy(value),
        attn_mask=torch.from_numpy(see), scale=float(np.float32(case["scale"])),
    )  # fmt: skip
    np.testing.assert_allclose(got["out"][0].swapaxes(0, 1), want.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"q": np.zeros((1, 3, 2, 12), np.float32)}, r"q: got float32\[1, 3, 2, 12\], want uint16\[B, N, Hq"),
        ({"tree_mask": np.zeros((1, 3, 2), np.uint32)}, "tree_mask: got 2 words a row, want 1 for N = 3"),
        ({"tree_mask": np.zeros((1, 3, 1), np.int32)}, "tree_mask: got int32"),
        ({"Hkv": 3}, "Hkv: got 3, want a divisor of Hq = 2"),
        ({"Hkv": 2}, r"kv: R = Dk = 12 means mla rows, want Hkv = 1"),
        ({"Dv": 13}, r"kv: R = Dk = 12 means mla rows, want Hkv = 1 and Dv <= R"),
        ({"kv": np.zeros((9, 3, 19), np.uint16)}, r"kv: got R = 19, want Dk = 12 \(mla\) or .* = 20 \(gqa\)"),
        ({"node_count": i32(4)}, r"node_count\[0\]: got 4, want 0\.\.3"),
        ({"prefix_len": i32(-1)}, r"prefix_len\[0\]: got -1"),
        ({"block_table": i32([1, -1, 2, 3])}, "block_table: got page -1 in request 0"),
        ({"block_table": i32([1])}, "block_table: request 0 has 1 pages of 3 slots, want slots"),
        ({"rows": np.zeros((1, 3), np.uint8)}, "rows: got uint8"),
    ],
)  # fmt: skip
def test_wrong_arguments(change, message):
    case = make_case(12, mla=True, prefixes=[5], counts=[3], nodes=3)
    case["tree_mask"][:] = 7
    case["kv"] = np.zeros((9, 3, 12), np.uint16)
    with pytest.raises(ValueError, match=message):
        verify_attn(**(case | change))
