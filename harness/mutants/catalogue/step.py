"""Wrong steps, made of right kernels: switches of ``cuda/mutants/greedy_step.cu``."""

from __future__ import annotations

from harness.mutants.model import Mutant


def _m(name: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"step_{name}", "greedy_step", fault, tuple(flags.split()), what)


STEP = (
    _m("attention_before_build", "steps-out-of-order", "greedy planted",
       "attention before its tree is built"),
    _m("commit_before_accept", "steps-out-of-order", "greedy planted",
       "rows are committed before the path is known"),
    _m("accept_before_hook", "steps-out-of-order", "planted",
       "the path is walked before the target has predicted"),
    _m("hook_before_comes_late", "steps-out-of-order", "planted",
       "queries and rows are written after attention"),
    _m("hook_before_attention_missed", "steps-out-of-order", "planted", "queries and rows are never written"),
    _m("hook_after_attention_missed", "steps-out-of-order", "planted", "the target never predicts"),
    _m("commit_missed", "rollback", "greedy several_steps", "rows of rejected drafts stay"),
    _m("commits_one_layer", "layers-missed", "other_layer", "only the first layer is committed"),
    _m("commits_twice", "rollback", "several_steps", "rows are moved again, from where others now stand"),
    _m("root_overwritten_by_bonus", "rollback", "greedy several_steps",
       "the next root is written over this one"),
    _m("first_mask_kept", "mask-kept", "several_steps", "the mask of the first call stays"),
    _m("first_links_kept", "value-baked", "several_steps", "the sibling links of the first call stay"),
    _m("first_count_kept", "batch-shrinks", "changing_sizes changing_live",
       "node_count of the first call stays"),
    _m("left_requests_planned", "stale-plan", "changing_live",
       "requests that left keep their last node_count"),
    _m("first_positions_kept", "value-baked", "several_steps", "the positions of the first call stay"),
    _m("first_lengths_kept", "value-baked", "changing_accepts", "accept_len of the first call stays"),
)  # fmt: skip
