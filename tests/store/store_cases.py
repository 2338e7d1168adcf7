"""A few cases that use everything the store can hold. Their values mean nothing; no reference made them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.case import AnyArray, Case, Patched, Recipe, Value, materialize
from harness.store import write_set
from harness.store.manifest import Manifest, SetInfo, load_manifest

INFO = SetInfo("smoke", 7, "1.0", "ab" * 32, "2.4.6", "3.11.7")
ODD_BF16 = np.array([0x7FC0, 0xFFC1, 0x7F81, 0x8000, 0x0001, 0x807F, 0x7F80, 0xFF80, 0x3F80], np.uint16)


def make_cases() -> list[Case]:
    return [*(_attention(i) for i in range(3)), *(_accept(i) for i in range(4)), *_commits(), *_steps()]


def _case(
    kernel: str, name: str, inputs: dict[str, Value], expected: dict[str, Value], **more: object
) -> Case:
    whole = {
        "case_id": f"{kernel}/small/{name}",
        "kernel": kernel,
        "family": "small",
        "flags": ("first", "second"),
        "policy": "exact",
        "validity": "valid",
        "seed": 2**62 + len(name),
        "inputs": inputs,
        "scalars": {},
        "expected": expected,
        **more,
    }
    return Case(**whole)  # type: ignore[arg-type]


def _attention(i: int) -> Case:
    lse = np.linspace(-3, 3, 2 * (i + 1), dtype=np.float32).reshape(1, -1, 2)
    lse[0, 0, 0] = -np.inf
    return _case(
        "verify_attn",
        f"n{i}",
        {
            "q": np.resize(ODD_BF16, (1, i + 1, 2, 16)),
            "kv": Recipe("unit_bf16", 40 + i, (3, 2, 32)),
            "block_table": np.arange(300, dtype=np.int32).reshape(1, 300) * (i + 1),
        },
        {"lse": lse, "out": np.full((1, i + 1, 2, 16), -0.0, np.float32)},
        scalars={"Hkv": 1, "scale": np.float32(0.1), "Dv": 16},
        notes={"margin": float("inf"), "share": 0.25, "nothing": float("nan")},
        policy="attention",
    )


def _accept(i: int) -> Case:
    """Stop tokens of length 0..3, an array that only some cases have, and one that never holds anything."""
    inputs: dict[str, Value] = {
        "stop_token": np.arange(i, dtype=np.int32),
        "nothing": np.zeros((0, 3), np.int32),
    }
    if i % 2:
        inputs["flag"] = np.array([True, False, True])
    bits = np.array([0x7FC00001, 0xFFC00000, 0x80000000, 1], np.uint32).view(np.float32)
    return _case("tree_accept", f"t{i}", inputs, {"accept_len": np.full(2, i, np.int32), "odd": bits})


def _commits() -> list[Case]:
    recipe = Recipe("bytes", 5, (2, 4, 4, 96))
    after = recipe.materialize()
    after[1, 2, 3] = np.arange(96)
    after[0, 0, 0] = 255
    patch = Patched.difference(recipe, after)
    return [
        _case("kv_commit", f"c{i}", {"kv": value}, {"kv": after_value})
        for i, (value, after_value) in enumerate(
            [
                (recipe, patch),
                (patch, patch),
                (after, recipe),
                (recipe, Patched.difference(recipe, recipe.materialize())),
            ]
        )
    ]


def _steps() -> list[Case]:
    shared: dict[str, Value] = {"root_token": np.array([[3]], np.int32)}
    q: dict[str, Value] = {"q": np.resize(ODD_BF16, (1, 1, 2, 1, 64))}
    head: dict[str, Value] = {
        "head": np.resize(ODD_BF16, (1, 3, 16)),
        "head_token": np.zeros((1, 3), np.int32),
    }
    return [
        _case("greedy_step", "given", {**shared, **q}, {"new_len": np.array([[4]], np.int32)}),
        _case("greedy_step", "planted", {**shared, **head}, {"new_len": np.array([[5]], np.int32)}),
    ]


def write_small(folder: Path) -> Manifest:
    return write_set(make_cases(), folder, INFO)


def same_value(a: Value, b: Value) -> bool:
    if type(a) is not type(b) and not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    return same_array(materialize(a), materialize(b))


def same_array(a: AnyArray, b: AnyArray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def accept_file(folder: Path, kernel: str) -> None:
    """Make the manifest agree with a file that a test has changed, as a careful forger would."""
    manifest = load_manifest(folder)
    raw = (folder / f"{kernel}.h5").read_bytes()
    entry = replace(manifest.files[kernel], bytes=len(raw), file_sha256=hashlib.sha256(raw).hexdigest())
    forged = replace(manifest, files={**manifest.files, kernel: entry})
    (folder / "manifest.json").write_text(forged.to_json())


def edit_manifest(folder: Path, edit: object, sign: bool) -> None:
    """Apply ``edit`` to the parsed manifest; ``sign`` renews its own hash."""
    path = folder / "manifest.json"
    body = json.loads(path.read_text())
    edit(body)  # type: ignore[operator]
    if sign:
        bare = {key: value for key, value in body.items() if key != "manifest_sha256"}
        body["manifest_sha256"] = hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(body))
