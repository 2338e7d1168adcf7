"""Wrong attention: switches of ``cuda/mutants/verify_attn.cu``."""

from __future__ import annotations

from harness.mutants.model import Mutant


def _m(name: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"attn_{name}", "verify_attn", fault, tuple(flags.split()), what)


ATTN = (
    # Masks.
    _m("mask_full", "wrong-ancestors", "tree_shape", "every live node is seen"),
    _m("mask_causal", "wrong-ancestors", "tree_shape", "every earlier node is seen"),
    _m("mask_transposed", "wrong-ancestors", "tree_shape", "bit i of row j"),
    _m("mask_self_taken_as_set", "wrong-ancestors", "self_hidden",
       "a node sees itself whatever the bit says"),
    _m("mask_self_taken_as_clear", "wrong-ancestors", "tree_shape", "a node never sees itself"),
    _m("mask_of_next_row", "wrong-ancestors", "tree_shape", "the row of the next node"),
    _m("mask_bit_off_by_one", "wrong-ancestors", "tree_shape", "bit j - 1 for node j"),
    _m("mask_bits_reversed", "wrong-ancestors", "any_bits tree_shape",
       "the highest bit of a word is the first node"),
    _m("stray_bits_count", "wrong-ancestors", "stray_bits", "bits at and past node_count are seen"),
    _m("mask_one_word", "one-mask-word", "many_words", "nodes from 32 on are not seen"),
    _m("mask_pitch_of_live", "mask-pitch", "padded_nodes", "mask rows by the live width"),
    _m("mask_of_first_request", "mask-offset", "ragged_batch", "the mask of the first request"),
    _m("mask_skipped_below_diagonal", "mask-skipped", "many_words",
       "whole tiles before the node are taken as seen"),
    _m("loop_ends_at_own_row", "loop-ends-early", "later_ancestor", "nodes past the own row are not seen"),
    _m("path_taken_as_dense", "wrong-ancestors", "tree_shape",
       "the n-th set bit is the n-th row of the tail"),
    # Lengths and live nodes.
    _m("prefix_one_short", "length-edge", "length_edge", "prefix_len - 1"),
    _m("prefix_one_over", "length-edge", "length_edge", "prefix_len + 1"),
    _m("prefix_ignored", "length-edge", "length_edge", "the tail alone"),
    _m("last_tile_dropped", "length-edge", "length_edge", "the last tile, where it is not full"),
    _m("page_rest_joins", "length-edge", "length_edge", "the rest of the last page of the prefix is seen"),
    _m("prefix_of_first_request", "length-edge", "ragged_batch", "prefix_len of the first request"),
    _m("count_of_first_request", "batch-padded", "inactive", "node_count of the first request"),
    _m("inactive_has_root", "padded-request-acts", "inactive", "a request that is not there has one node"),
    _m("dead_rows_computed", "padded-nodes-computed", "padded_nodes",
       "rows past the live nodes are computed"),
    _m("dead_rows_unwritten", "padded-nodes-computed", "padded_nodes",
       "rows past the live nodes are left as they are"),
    _m("dead_rows_are_minus_one", "padded-nodes-computed", "padded_nodes",
       "rows past the live nodes are -1.0"),
    # Pages and offsets.
    _m("pages_of_first_request", "wrong-page", "ragged_batch", "block_table of the first request"),
    _m("table_pitch_one_short", "wrong-page", "ragged_batch", "rows of block_table M - 1 apart"),
    _m("pages_in_order", "wrong-page", "length_edge", "slot / S is the page"),
    _m("page_by_shift", "wrong-page", "odd_page", "page and slot by shift and mask"),
    _m("page_stride_is_slot_stride", "wrong-page", "length_edge", "pages as far apart as slots"),
    _m("offset_in_16_bits", "narrow-offsets", "length_edge high_pages", "offsets wrap at 2^16"),
    _m("offset_in_32_bits", "narrow-offsets", "far_pool", "offsets wrap at 2^31"),
    _m("pool_row_against_length", "pool-place-for-position", "high_pages",
       "rows of the pool past the length are skipped"),
    # Rows and heads.
    _m("heads_interleaved", "head-mapping", "head_groups", "head h reads KV head h % Hkv"),
    _m("value_of_first_head", "head-mapping", "head_groups", "values of KV head 0"),
    _m("query_of_first_head", "head-mapping", "head_groups", "the query of head 0"),
    _m("key_head_by_value_width", "head-mapping", "head_groups", "key heads as far apart as value heads"),
    _m("query_of_first_node", "query-row", "tree_shape", "the query of node 0"),
    _m("last_key_element_missed", "row-parts", "gqa", "the last element of a key is left out"),
    _m("rope_dropped", "row-parts", "mla", "the rope part is left out of the score"),
    _m("rope_from_row_start", "row-parts", "mla", "the first elements of a row are taken for its rope part"),
    _m("value_from_rope_part", "row-parts", "mla", "values are the last 512 columns"),
    # Softmax.
    _m("scale_missing", "wrong-scale", "other_scale", "no scale"),
    _m("scale_twice", "wrong-scale", "other_scale", "scale squared"),
    _m("scale_from_key_width", "wrong-scale", "other_scale mla",
       "one over the root of the key width, 576 too"),
    _m("no_peak", "softmax-range", "large_logits", "exp of the score itself"),
    _m("rescale_missing", "merge-wrong", "peaked length_edge", "older sums keep the older peak"),
    _m("total_of_rounded_weights", "rounded-total", "length_edge", "the denominator sums bf16 weights"),
    _m("padding_joins_total", "padding-in-total", "zero_query", "keys past the end count with score 0"),
    _m("hidden_is_minus_thousand", "nothing-visible", "sees_nothing", "hidden keys score -1000, not -inf"),
    _m("hidden_is_minus_thirty", "unused-kv-shows", "huge_hidden", "hidden keys score -30"),
    _m("hidden_times_zero", "unused-kv-shows", "any_bits sees_nothing stray_bits",
       "hidden values are multiplied by 0"),
    _m("empty_divides_by_zero", "nothing-visible", "sees_nothing", "0 / 0 where nothing is seen"),
    _m("lse_of_nothing_is_zero", "nothing-visible", "sees_nothing", "lse 0 where nothing is seen"),
    _m("lse_of_nothing_is_plus_infinity", "nothing-visible", "sees_nothing",
       "lse +inf where nothing is seen"),
    _m("lse_in_base_two", "lse-wrong", "mla gqa", "a logarithm to base 2"),
    _m("lse_without_peak", "lse-wrong", "mla gqa", "the peak is not added"),
    _m("lse_unwritten", "lse-wrong", "mla gqa", "lse is left as it is"),
    # Splits.
    _m("last_share_dropped", "merge-wrong", "length_edge", "one of the partial results is not merged"),
    _m("merge_takes_first_values", "merge-wrong", "length_edge", "values of the first part for both"),
    _m("merge_without_rescale", "merge-wrong", "length_edge peaked", "parts are added as they are"),
    _m("empty_merge_unguarded", "empty-merge", "sees_nothing", "-inf minus -inf"),
    _m("empty_share_unwritten", "empty-share", "zero_prefix length_edge",
       "an empty part leaves the workspace as it was"),
    _m("workspace_added_to", "workspace-trusted", "mla gqa", "sums start from what the workspace holds"),
    _m("lse_differs_between_calls", "not-repeatable", "mla gqa", "an ulp more in every other call"),
    # Barriers and bounds.
    _m("barrier_missing_after_weights", "missing-barrier", "mla gqa", "weights are read before all stand"),
    _m("barrier_missing_before_next_tile", "missing-barrier", "length_edge",
       "weights are overwritten while others read"),
    _m("out_steps_by_value_width", "output-stride", "head_groups mla gqa",
       "outputs of all heads in one place"),
    _m("writes_past_the_end", "outside-its-arrays", "mla gqa", "one element behind the last output"),
)  # fmt: skip
