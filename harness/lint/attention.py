"""Proof that an attention case can tell a wrong mask: is every wrong output outside the allowance?

A case whose comparison would accept a causal mask, or a mask with one bit flipped, tests nothing. Flipping
one tail key of a row has a closed form: with t = logit - lse, hiding the key moves lse by log(1 - e^t) and
out by (out - v) e^t / (1 - e^t); showing it moves lse by log(1 + e^t) and out by (v - out) e^t / (1 + e^t).
So neither the prefix nor the whole softmax is computed again. The allowance is the contract's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.allowance import Floats, allowed_lse, allowed_out
from harness.case import Case
from harness.lint.attention_steps import Attention, attention_steps

Bools = npt.NDArray[np.bool_]

TIMES = 2.0  # a wrong output must be off by this many allowances
EVERY_ROW = 65  # up to this many live nodes every bit is flipped, above it the bits of `SAMPLED_ROWS` rows
SAMPLED_ROWS = 32
TAIL_WEIGHT = (0.1, 0.4)
NO_LEAN = frozenset({"zero_query", "peaked", "equal_logits"})  # flags of queries that cannot lean to the tail
DEEP = 16  # rows of a sample that see more tail nodes are not asked bit by bit: each key weighs too little
LOOKS_CAUSAL = frozenset({"chain", "root_only", "empty"})


@dataclass(frozen=True)
class Discrimination:
    """What a case can tell. ``flips`` bits tried, ``missed`` by out and lse, ``missed_by_out`` by out alone.

    ``tail_weight``: mean weight of the tail, lowest and highest over requests with a prefix (None without).
    """

    findings: tuple[str, ...]
    flips: int
    missed: int
    missed_by_out: int
    tail_weight: tuple[float, float] | None

    @property
    def blind_without_lse(self) -> bool:
        """A target that returns no lse could pass with some wrong mask bit."""
        return self.missed_by_out > 0


def attention_findings(case: Case) -> list[str]:
    """Why the case cannot tell right from wrong attention, one line each; empty for a good case.

    Takes verify_attn and greedy_step cases (each step's attention; their queries need not lean).
    """
    return list(discriminate(case).findings)


def needs_lse(cases: Iterable[Case]) -> list[str]:
    """Ids of the cases whose out alone would let some wrong mask bit pass: for targets that return no lse."""
    return [case.case_id for case in cases if discriminate(case, out_alone=True).blind_without_lse]


def discriminate(case: Case, *, out_alone: bool = False) -> Discrimination:
    """Try every wrong mask on the case; ``out_alone`` also counts what out alone would miss."""
    findings: list[str] = []
    flips = missed = missed_by_out = 0
    causal_seen = live = False
    weights: list[float] = []
    for part in attention_steps(case):
        live |= bool((part.visible > 0).any())
        causal_seen |= _tells_causal(part)
        by_lse, by_out, rows = _flips(part, out_alone)
        lost = ~(by_lse | by_out)
        flips, missed, missed_by_out = (
            flips + lost.size,
            missed + int(lost.sum()),
            missed_by_out + int((~by_out).sum()),
        )
        if lost.any():
            i, j = (int(x[0]) for x in np.nonzero(lost))
            findings.append(
                f"{part.name}: {int(lost.sum())} of {lost.size} flipped mask bits stay within {TIMES:g} "
                f"allowances, first row {int(rows[i])} bit {j}"
            )
        if part.prefix and part.sees.any():
            weight = tail_weight(part)
            weights.append(weight)
            leans = case.kernel == "verify_attn" and not NO_LEAN & set(case.flags)
            if leans and not TAIL_WEIGHT[0] <= weight <= TAIL_WEIGHT[1]:
                findings.append(
                    f"{part.name}: mean tail weight {weight:.3f}, want {TAIL_WEIGHT[0]}..{TAIL_WEIGHT[1]}"
                )
    if not causal_seen and not LOOKS_CAUSAL & set(case.flags):
        findings.append(
            "a causal mask gives outputs within the allowance, and no flag says chain or root_only"
        )
    if not live and "empty" not in case.flags:
        findings.append("no row sees a key, and no flag says empty")
    between = (min(weights), max(weights)) if weights else None
    return Discrimination(tuple(findings), flips, missed, missed_by_out if out_alone else 0, between)


def tail_weight(part: Attention) -> float:
    """Mean weight of the visible tail keys, over heads and the live nodes that see any."""
    inside = np.where(part.sees[:, None], np.exp(_relative(part)), 0.0).sum(axis=-1)
    return float(inside[part.sees.any(axis=1)].mean())


def _relative(part: Attention) -> Floats:
    """Float64 [n,Hq,n]: logit of each tail key minus the row's lse; +inf where the row sees nothing."""
    with np.errstate(over="ignore"):
        lse = np.where(np.isneginf(part.lse), -1e300, part.lse)
        return part.logits - lse[..., None]


def _tells_causal(part: Attention) -> bool:
    """Whether a causal mask changes some lse or, failing that, some out of the request by enough."""
    causal = part.node[:, None] >= np.arange(part.sees.shape[1])
    if (causal == part.sees).all():
        return False
    if (part.visible == 0).any():
        return True  # such a row sees itself under a causal mask
    weight = np.exp(np.minimum(_relative(part), 700.0))
    right = np.where(part.sees[:, None], weight, 0.0)
    outside = np.maximum(1.0 - right.sum(axis=-1), 0.0) if part.prefix else np.zeros(part.lse.shape)
    wrong = np.where(causal[None].swapaxes(0, 1), weight, 0.0)
    total = outside + wrong.sum(axis=-1)
    if bool((np.abs(np.log(total)) >= TIMES * allowed_lse(part.lse, part.d, part.visible)).any()):
        return True
    shift = np.zeros(part.out.shape)
    for h, value in enumerate(part.head_values()):
        moved = (wrong[:, h] - right[:, h]) @ value + (1.0 - total[:, h, None]) * part.out[:, h]
        shift[:, h] = np.abs(moved) / total[:, h, None]
    return bool(_off(shift, TIMES * allowed_out(part.out, part.m, part.d)).any())


def _off(change: Floats, limit: Floats) -> Bools:
    """Whether a change reaches its limit; where all values are 0, so is the limit, and 0 is no change."""
    return (change >= limit) & (change > 0.0)


def _flips(part: Attention, out_alone: bool) -> tuple[Bools, Bools, npt.NDArray[np.intp]]:
    """Bits [r,n] that lse tells and that out tells, and the nodes [r] tried.

    Where ``out_alone`` is false, out is only asked about bits that lse does not tell.
    """
    rows = len(part.sees)
    some = np.arange(rows)
    if rows > EVERY_ROW:
        some = np.unique(np.arange(SAMPLED_ROWS) * (rows - 1) // (SAMPLED_ROWS - 1))
    if part.sampled:
        some = some[part.sees[some].sum(axis=1) <= DEEP]
    sees, lse = part.sees[some], part.lse[some]
    t = _relative(part)[some]
    appears = (part.visible[some] == 0)[:, None]  # a row that saw nothing sees something
    vanishes = (part.visible[some] == 1)[:, None] & sees  # and the other way round
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        gone = np.clip(np.exp(np.minimum(t, 0.0)), 0.0, 1.0)
        moved = np.where(sees[:, None], -np.log1p(-gone), np.logaddexp(0.0, t))
        bound = TIMES * allowed_lse(lse, part.d[some], part.visible[some])
        by_lse = (moved >= bound[..., None]).any(axis=1) | appears | vanishes
        share = np.where(sees[:, None], gone / (1.0 - gone), 1.0 / (1.0 + np.exp(-t)))
    by_out = (appears | vanishes) & np.ones_like(sees)
    limit = TIMES * allowed_out(part.out[some], part.m[some], part.d[some])
    for h, value in enumerate(part.head_values()):
        for r in range(len(some)):
            ask = np.flatnonzero(~by_out[r] if out_alone else ~(by_lse[r] | by_out[r]))
            if len(ask):
                change = share[r, h, ask, None] * np.abs(value[ask] - part.out[some[r], h])
                by_out[r, ask] |= _off(change, limit[r, h]).any(axis=1)
    return by_lse, by_out, part.node[some]
