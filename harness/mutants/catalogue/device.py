"""Faults of streams, graphs and launches. The emulator runs a launch when it is made, so they need a GPU."""

from __future__ import annotations

from harness.mutants.model import Mutant


def _m(name: str, kernel: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"device_{name}", kernel, fault, tuple(flags.split()), what, needs="a GPU")


DEVICE = (
    _m("build_on_default_stream", "tree_build", "stream-ignored", "best_first",
       "the tree is built on the default stream"),
    _m("attn_on_default_stream", "verify_attn", "stream-ignored", "mla gqa",
       "attention runs on the default stream"),
    _m("accept_on_default_stream", "tree_accept", "stream-ignored", "walk",
       "the path is walked on the default stream"),
    _m("commit_on_default_stream", "kv_commit", "stream-ignored", "commit",
       "rows are moved on the default stream"),
    _m("mask_cleared_beside_stream", "tree_build", "stream-ignored", "best_first",
       "the mask is cleared by a memset on the default stream"),
    _m("hooks_on_default_stream", "greedy_step", "stream-ignored", "planted",
       "the model's work is put on the default stream"),
    _m("commit_on_side_stream", "greedy_step", "stream-ignored", "several_steps",
       "commit on a stream of its own that waits for nobody"),
    _m("commit_forked_not_joined", "greedy_step", "stream-ignored", "several_steps",
       "commit on a stream of its own that nobody waits for"),
    _m("count_read_by_host", "greedy_step", "no-capture", "greedy several_steps",
       "the host waits for node_count between two kernels"),
    _m("synchronises", "greedy_step", "no-capture", "greedy several_steps",
       "the host waits for the stream before it commits"),
    _m("prefix_baked", "greedy_step", "value-baked", "several_steps",
       "a graph commits behind the prefix_len of its capture"),
    _m("limit_baked", "greedy_step", "value-baked", "one_change",
       "a graph accepts up to the token_limit of its capture"),
    _m("merge_without_wait", "verify_attn", "dependent-launch", "mla gqa",
       "shares are merged before they stand"),
    _m("commit_without_wait", "greedy_step", "dependent-launch", "several_steps",
       "rows are moved before the path is walked"),
)  # fmt: skip
