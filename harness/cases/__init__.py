"""Case families: a folder for each kernel, `blocks` for what they share, and the list of them all."""

from __future__ import annotations

from harness.cases import greedy_step, kv_commit, tree_accept, tree_build, verify_attn
from harness.cases.base import Family

FAMILIES: tuple[Family, ...] = (
    *tree_build.FAMILIES,
    *verify_attn.FAMILIES,
    *tree_accept.FAMILIES,
    *kv_commit.FAMILIES,
    *greedy_step.FAMILIES,
)
