"""Recipes: any part of them, made in chunks, is that part of the whole."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from harness import case as module
from harness.case import Patched, Recipe, hash_words


@pytest.mark.parametrize("kind", ["bytes", "unit_bf16"])
def test_parts_are_parts_of_the_whole(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(kind, 77, (3, 41, 11))
    whole = recipe.materialize()
    monkeypatch.setattr(module, "_CHUNK", 3)
    assert recipe.materialize().tobytes() == whole.tobytes()
    flat = whole.reshape(-1)
    for start, stop in ((0, 0), (0, 1), (7, 9), (13, 1000), (1352, 1353)):
        assert recipe.elements(start, stop).tobytes() == flat[start:stop].tobytes()


def test_words_do_not_depend_on_where_one_starts() -> None:
    assert (hash_words(5, 100)[40:] == hash_words(5, 60, 40)).all()
    digest = hashlib.sha256(hash_words(2**63 + 1, 1000).astype("<u8").tobytes()).hexdigest()
    assert digest.startswith("c647228ba79f9fcf")


def test_a_difference_is_found_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Recipe("bytes", 3, (2, 50, 7))
    array = base.materialize()
    rows = np.array([0, 1, 49, 50, 99])
    array.reshape(-1, 7)[rows, 3] ^= 1
    for piece in (1, 21, 10_000):
        monkeypatch.setattr(module, "_PIECE", piece)
        patch = Patched.difference(base, array)
        assert patch.rows.tolist() == rows.tolist()
        assert patch.materialize().tobytes() == array.tobytes()
    assert Patched.difference(base, base.materialize()).rows.size == 0
