"""What a flash-style kernel returns: tiles, a running maximum, splits, bf16 probabilities, a bf16 output.

Used to see how much of a planted margin such a kernel uses up. Not a reference.
"""

from __future__ import annotations

import numpy as np

from harness.cases.blocks.planted.wrong_inputs import Floats, Problem
from references import bf16_to_float64, float_to_bf16

# (tile, splits, probabilities rounded to bf16)
STYLES = (
    (16, 1, True), (32, 1, True), (64, 1, True), (16, 7, True), (32, 4, True), (64, 2, True),
    (16, 3, True), (64, 1, False), (16, 7, False),
)  # fmt: skip


def flash_outputs(problem: Problem) -> Floats:
    """Outputs [len(STYLES),n,Hq*Dv] of the right inputs, rounded to bf16."""
    seen = problem.slots(problem.prefix, problem.sees)
    used = np.flatnonzero(seen.any(axis=0))
    with np.errstate(divide="ignore"):
        logits = np.log(problem.weights()[..., used])
    logits[~np.broadcast_to(seen[:, None, used], logits.shape)] = -np.inf
    values = [value[used] for value in problem.head_values()]
    return np.stack([_style(logits, values, *style) for style in STYLES])


def _style(logits: Floats, values: list[Floats], tile: int, splits: int, rounded: bool) -> Floats:
    """Outputs [n,Hq*Dv] of one style; ``logits`` [n,Hq,k]."""
    keys = logits.shape[-1]
    running = np.empty_like(logits)
    for part in np.array_split(np.arange(keys), splits):
        top = np.full(logits.shape[:-1], -np.inf)
        for start in range(0, len(part), tile):
            block = part[start : start + tile]
            top = np.maximum(top, logits[..., block].max(axis=-1))
            running[..., block] = top[..., None]
    running = np.where(np.isneginf(running), 0.0, running)
    probability = np.exp(logits - running)
    kept = bf16_to_float64(float_to_bf16(probability)) if rounded else probability
    final = logits.max(axis=-1, keepdims=True)
    rescale = np.exp(running - np.where(np.isneginf(final), 0.0, final))
    total = (probability * rescale).sum(axis=-1, keepdims=True)
    weight = (kept * rescale / np.where(total == 0.0, 1.0, total)).astype(np.float32)
    parts = [weight[:, h] @ value.astype(np.float32) for h, value in enumerate(values)]
    return bf16_to_float64(float_to_bf16(np.concatenate(parts, axis=-1)))
