"""Wrong walks: switches of ``cuda/mutants/tree_accept.cu``."""

from __future__ import annotations

from harness.mutants.model import Mutant


def _m(name: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"accept_{name}", "tree_accept", fault, tuple(flags.split()), what)


ACCEPT = (
    # Which child.
    _m("first_child_only", "wrong-child", "late_sibling", "siblings are never looked at"),
    _m("last_match_wins", "wrong-child", "duplicate_siblings", "of equal tokens the last sibling"),
    _m("any_node_matches", "wrong-child", "not_a_child", "any later node with the token"),
    _m("stops_at_leaf_parent", "wrong-child", "all_accepted", "a leaf is never accepted"),
    _m("goes_on_after_a_miss", "matches-counted", "later_match", "the walk goes on below a miss"),
    _m("prediction_of_root", "wrong-child", "walk", "the root's prediction at every node"),
    _m("none_matches_none", "none-as-token", "no_prediction", "a prediction of -1 matches a token of -1"),
    _m("padding_is_alive", "padding-walked", "hostile_padding", "all N slots are nodes"),
    # Counts and rows.
    _m("count_includes_root", "wrong-count", "walk", "accept_len counts the root"),
    _m("count_includes_bonus", "wrong-count", "walk", "accept_len counts the bonus"),
    _m("root_is_emitted", "wrong-count", "walk", "out_token starts with the root"),
    _m("rows_step_by_slots", "accept-pitch", "ragged_batch", "accept rows N apart"),
    _m("tail_unwritten", "accept-tail", "nothing_accepted", "entries past the path are left as they are"),
    _m("padding_is_zero", "accept-tail", "walk", "entries past the path are 0, not -1"),
    _m("depth_limit_ignored", "depth-limit", "deeper_than_limit", "the path overruns its row"),
    _m("depth_limit_one_short", "depth-limit", "deeper_than_limit", "depth_limit - 1 drafts"),
    # Bonus.
    _m("bonus_from_root", "bonus-node", "off_first_branch", "the root's prediction"),
    _m("bonus_from_parent", "bonus-node", "late_sibling", "the prediction of the last node's parent"),
    _m("bonus_from_first_child", "bonus-node", "walk", "the prediction of a node that was not accepted"),
    _m("bonus_by_length", "bonus-node", "off_first_branch", "the prediction of node number accept_len"),
    _m("bonus_not_in_tokens", "wrong-count", "walk", "out_token ends before the bonus"),
    _m("bonus_of_none_counts", "none-as-token", "no_prediction", "a bonus of -1 is emitted and counted"),
    _m("finished_without_bonus", "none-from-argmax", "no_prediction", "a bonus of -1 ends the request"),
    # Stop tokens and limits.
    _m("stop_ignored", "stop-late", "stop_token", "stop tokens are not looked for"),
    _m("stop_token_excluded", "stop-late", "stop_token", "the stop token is not emitted"),
    _m("stop_on_bonus_only", "stop-late", "stop_token", "only the bonus is looked at"),
    _m("stop_on_drafts_only", "stop-late", "stop_token", "the bonus is not looked at"),
    _m("first_stop_only", "stop-late", "stop_token", "only the first stop token counts"),
    _m("root_may_stop", "stop-late", "stop_token", "a root that is a stop token ends the request"),
    _m("run_not_cut", "stop-late", "stop_token", "finished, but the run goes on"),
    _m("bonus_after_the_end", "stop-late", "stop_token", "a bonus behind the end"),
    _m("finished_missing", "finished-flag", "stop_token token_limit", "finished is never set"),
    _m("limit_ignored", "limit-late", "token_limit", "no limit"),
    _m("limit_one_over", "limit-late", "token_limit", "token_limit + 1"),
    _m("limit_of_zero_emits", "limit-late", "token_limit", "a limit of 0 lets the first token out"),
    _m("limit_counts_bonus_only", "limit-late", "token_limit", "drafts pass the limit"),
    _m("limit_of_first_request", "limit-late", "token_limit", "token_limit of the first request"),
    # Malformed trees.
    _m("links_unchecked", "links-unchecked", "bad_links", "links are followed as they are"),
    _m("only_child_links_checked", "links-unchecked", "bad_links", "sibling links are not checked"),
    _m("backward_links_pass", "links-unchecked", "bad_links", "links to smaller slots pass"),
    _m("self_links_pass", "links-unchecked", "bad_links", "links to the node itself pass"),
    _m("links_to_padding_pass", "links-unchecked", "bad_links", "links past the live nodes pass"),
    _m("negative_links_are_none", "links-unchecked", "bad_links", "every negative link is none"),
    _m("two_parents_pass", "links-unchecked", "bad_links", "two links may lead to one node"),
    _m("large_count_passes", "count-unchecked", "bad_count", "node_count above N is cut to N"),
    _m("negative_count_is_inactive", "count-unchecked", "bad_count", "node_count below 0 is 0"),
    _m("bad_tree_walked", "status-spreads", "bad_links", "status 1, and walked all the same"),
    _m("status_missing", "status-spreads", "bad_links", "accept_status is always 0"),
    _m("bad_request_spoils_batch", "status-spreads", "neighbours_good",
       "one malformed request makes all malformed"),
    # Requests of a batch.
    _m("inactive_acts", "padded-request-acts", "inactive", "a request that is not there accepts its root"),
    _m("inactive_is_zero", "padded-request-acts", "inactive", "accept_len 0 for a request that is not there"),
    _m("trees_of_first_request", "accept-pitch", "ragged_batch", "the tree of the first request"),
    # Barriers.
    _m("barrier_missing_after_clearing", "missing-barrier", "walk",
       "targets are counted while others still clear"),
    _m("barrier_missing_before_walk", "missing-barrier", "walk", "the walk starts before the tree is loaded"),
)  # fmt: skip
