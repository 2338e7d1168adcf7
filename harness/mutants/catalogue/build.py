"""Wrong builders of trees: switches of ``cuda/mutants/tree_build.cu``."""

from __future__ import annotations

from harness.mutants.model import Mutant


def _m(name: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"build_{name}", "tree_build", fault, tuple(flags.split()), what)


BUILD = (
    # Order and scores.
    _m("ties_late_rank_first", "tie-order", "ties", "equal scores: the larger rank tuple first"),
    _m("ties_oldest_parent_first", "tie-order", "all_equal",
       "equal scores: children of the older node first"),
    _m("ties_last_rank_first", "tie-order", "ties", "equal scores: by the last rank alone"),
    _m("ties_newest_first", "tie-order", "ties", "equal scores: what was pushed last comes first"),
    _m("tie_buffer_of_eight", "tie-overflow", "all_equal",
       "from the ninth equal score on, the slot keeps no token"),
    _m("zero_signs", "nan-by-bits", "all_equal", "-0.0 is ordered below 0.0"),
    _m("float32_sums", "score-rounding", "float32_sums", "sums are kept in float32"),
    _m("running_difference", "score-rounding", "running_difference",
       "a sibling's score is the last one minus one log-prob plus the next"),
    _m("fixed_point", "score-rounding", "off_grid", "log-probs are cut to multiples of 2^-20"),
    _m("subnormals_are_zero", "score-rounding", "every_magnitude",
       "subnormal log-probs are flushed to 0, as with -ftz=true"),
    _m("probability_product", "probability-product", "probability_product",
       "products of float32 probabilities"),
    _m("rank_cap", "candidate-limit", "rank_cap",
       "children of the i-th node of a level limited to budget / (i + 1)"),
    _m("rank_in_seven_bits", "candidate-limit", "many_candidates", "ranks from 128 on wrap"),
    _m("last_candidate_missed", "candidate-limit", "best_first",
       "the last of the K candidates is never taken"),
    # Size and shape.
    _m("budget_one_short", "tree-size", "best_first", "budget - 1 nodes"),
    _m("one_node_too_many", "tree-size", "best_first", "budget + 1 nodes: written past the row"),
    _m("depth_one_short", "tree-size", "chain", "no node at the last level"),
    _m("chain_one_short", "chain-differs", "chain", "a chain ends one level early"),
    _m("one_level_takes_one", "one-level-tree", "star", "a tree of one level has one node"),
    _m("depth_one_over", "tree-size", "best_first", "a level below the last, with its candidates again"),
    _m("count_without_root", "tree-size", "best_first root_only", "node_count without the root"),
    _m("chain_only", "collapsed-tree", "best_first", "one child for each node"),
    _m("no_candidate_enters", "too-few-candidates", "no_candidate",
       "-inf is a very small log-prob, not none"),
    _m("padding_unwritten", "too-few-candidates", "short_tree",
       "slots past the live nodes are left as they are"),
    _m("padding_is_zero", "too-few-candidates", "no_candidate", "slots past the live nodes are 0, not -1"),
    # Links, parents, depths, tokens.
    _m("links_reversed", "wrong-links", "best_first", "children are pushed in front of their siblings"),
    _m("third_sibling_unlinked", "wrong-links", "star", "from the third on, siblings are not linked"),
    _m("child_link_is_youngest", "wrong-links", "best_first", "next_token leads to the last child"),
    _m("root_is_its_parent", "root-only-tree", "root_only no_candidate", "the root's parent is 0, not -1"),
    _m("parent_counts_the_batch", "parent-outside-request", "ragged_batch",
       "parents numbered over the batch"),
    _m("parent_is_previous", "depth-from-order", "best_first", "node_parent is the slot before"),
    _m("depth_is_slot", "depth-from-order", "best_first", "node_depth follows the order of the list"),
    _m("token_is_rank", "rank-for-token", "sparse_tokens", "the rank is written as the token"),
    _m("token_of_next_depth", "rank-for-token", "sparse_tokens", "tokens from the row of the next depth"),
    _m("tokens_taken_once", "rank-for-token", "repeated_tokens",
       "a token that is in the tree is not taken again"),
    # Positions.
    _m("position_is_slot", "position-from-slot", "best_first", "prefix_len + slot"),
    _m("position_without_prefix", "position-from-slot", "best_first", "the depth alone"),
    _m("position_in_float", "position-from-slot", "huge_prefix", "prefix_len passes through float32"),
    _m("position_from_one", "position-from-slot", "zero_prefix", "prefix_len + depth + 1"),
    # Masks.
    _m("mask_causal", "wrong-ancestors", "best_first", "every earlier node is an ancestor"),
    _m("mask_transposed", "wrong-ancestors", "best_first", "descendants instead of ancestors"),
    _m("mask_without_self", "wrong-ancestors", "best_first", "a node does not see itself"),
    _m("mask_parent_only", "wrong-ancestors", "best_first", "the node, its parent and the root"),
    _m("mask_not_cleared", "wrong-ancestors", "word_edge", "bits are set in what the output held before"),
    _m("mask_one_word", "one-mask-word", "word_edge", "bits from 32 on are dropped"),
    _m("mask_last_word_missed", "mask-room", "word_edge", "no room for the last word of a row"),
    _m("mask_spare_bits", "one-mask-word", "word_edge", "bits past the last slot are set"),
    _m("mask_pitch_of_live", "mask-pitch", "short_tree no_candidate",
       "rows lie as far apart as the live nodes need"),
    _m("mask_padding_unwritten", "mask-pitch", "short_tree", "mask rows past the live nodes are not cleared"),
    _m("mask_of_first_request", "mask-of-other-request", "ragged_batch",
       "every request writes the first one's rows"),
    # Bad rows and requests that are not there.
    _m("nan_passes", "nan-by-bits", "nan", "NaN is not looked for"),
    _m("negative_nan_passes", "padded-vocabulary-id", "nan",
       "NaN with the sign bit is taken for a number below 0"),
    _m("positive_passes", "bad-rows-unchecked", "bad_rows", "log-probs above 0 are taken"),
    _m("unsorted_passes", "bad-rows-unchecked", "unsorted", "rows may rise"),
    _m("rise_of_an_ulp_passes", "bad-rows-unchecked", "unsorted", "a small rise is not seen"),
    _m("checks_first_row_only", "bad-rows-unchecked", "unreached", "only depth 1 is checked"),
    _m("checks_miss_last_entry", "bad-rows-unchecked", "bad_rows",
       "the last of the L x K entries is not checked"),
    _m("bad_status_missing", "bad-rows-unchecked", "bad_rows", "a bad request's status is 0"),
    _m("bad_tree_kept", "bad-rows-unchecked", "bad_rows", "status 1, but the tree is built all the same"),
    _m("bad_tree_empty", "bad-rows-unchecked", "bad_rows", "status 1 without a root"),
    _m("bad_request_spoils_batch", "bad-rows-unchecked", "neighbours_good", "one bad request makes all bad"),
    _m("inactive_builds", "padded-request-acts", "inactive", "a request that is not there gets a tree"),
    _m("inactive_has_root", "padded-request-acts", "inactive", "a request that is not there gets a root"),
    _m("inactive_status", "padded-request-acts", "inactive", "bad rows of a request that is not there count"),
    _m("inactive_is_zero", "batch-padded", "inactive", "outputs of a request that is not there are 0"),
    # Requests of a batch.
    _m("rows_of_first_request", "other-requests-rows", "ragged_batch", "log-probs of the first request"),
    _m("tokens_of_first_request", "other-requests-rows", "ragged_batch", "tokens of the first request"),
    _m("prefix_of_first_request", "other-requests-rows", "ragged_batch", "prefix_len of the first request"),
    # Barriers.
    _m("barrier_missing_before_choice", "missing-barrier", "best_first",
       "the best is chosen before all have proposed"),
    _m("barrier_missing_after_choice", "missing-barrier", "best_first",
       "others go on before the new node stands"),
    _m("barrier_missing_in_mask", "missing-barrier", "word_edge", "bits are set while others still clear"),
)  # fmt: skip
