"""Wrong commits: switches of ``cuda/mutants/kv_commit.cu``."""

from __future__ import annotations

from harness.mutants.model import Mutant


def _m(name: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"commit_{name}", "kv_commit", fault, tuple(flags.split()), what)


COMMIT = (
    _m("path_taken_as_dense", "path-as-dense", "off_first_branch",
       "nothing moves: the path is taken for 0, 1, 2"),
    _m("moves_in_falling_order", "move-order", "overlapping_moves", "the last move first"),
    _m("bytes_change_hands", "missing-barrier", "overlapping_moves",
       "threads share rows without a barrier between moves"),
    _m("target_one_early", "wrong-moves", "off_first_branch", "targets from the root on"),
    _m("target_one_late", "wrong-moves", "off_first_branch", "targets one slot late"),
    _m("source_one_late", "wrong-moves", "commit", "sources one slot late"),
    _m("skips_last_move", "wrong-moves", "off_first_branch", "the last draft stays where it is"),
    _m("eight_moves_at_most", "wrong-moves", "long_moves", "moves past the eighth are dropped"),
    _m("prefix_ignored", "wrong-moves", "commit", "slots counted from 0"),
    _m("root_cleared", "wrong-moves", "commit", "the root's row is cleared"),
    _m("prefix_of_first_request", "committed-length", "ragged_batch", "prefix_len of the first request"),
    # Pages.
    _m("pages_of_first_request", "wrong-page", "neighbour_pages", "block_table of the first request"),
    _m("pages_in_order", "wrong-page", "page_border", "slot / S is the page"),
    _m("page_by_shift", "wrong-page", "page_border neighbour_pages", "page and slot by shift and mask"),
    _m("target_in_page_of_source", "wrong-page", "page_border",
       "the target is looked for in the source's page"),
    _m("offset_in_12_bits", "narrow-offsets", "odd_row_bytes", "offsets wrap at 2^12"),
    _m("offset_in_32_bits", "narrow-offsets", "far_pool", "offsets wrap at 2^31"),
    _m("offset_in_unsigned_32_bits", "narrow-offsets", "far_pool", "offsets wrap at 2^32"),
    # Bytes beside the rows.
    _m("rows_rounded_up", "neighbours-moved", "odd_row_bytes",
       "rows are copied in whole vectors: the next row changes"),
    _m("rows_rounded_down", "neighbours-moved", "odd_row_bytes",
       "rows are copied in whole vectors: their end is lost"),
    _m("half_rows", "neighbours-moved", "odd_row_bytes commit", "elements of two bytes are taken for one"),
    _m("whole_page_moves", "neighbours-moved", "partial_page", "the page of the last row moves with it"),
    _m("rows_swapped", "neighbours-moved", "commit", "rows are exchanged instead of copied"),
    _m("source_cleared", "neighbours-moved", "commit", "rows are cleared where they came from"),
    _m("tail_cleared", "neighbours-moved", "commit", "the row behind the path is cleared"),
    # Layers, lengths, requests that are not there.
    _m("first_layer_only", "layers-missed", "commit", "every block works on layer 0"),
    _m("last_layer_missed", "layers-missed", "commit", "the last of several layers is left out"),
    _m("layers_past_sixty", "layers-missed", "many_layers", "layers from 60 on are left out"),
    _m("length_without_root", "committed-length", "commit", "new_len without the root"),
    _m("length_counts_bonus", "committed-length", "commit", "new_len with the bonus"),
    _m("length_unwritten", "committed-length", "commit", "new_len is left as it is"),
    _m("inactive_grows", "padded-request-acts", "inactive", "a request that is not there grows by a root"),
    _m("inactive_length_is_zero", "padded-request-acts", "inactive",
       "new_len 0 for a request that is not there"),
    _m("inactive_acts", "padded-request-acts", "inactive",
       "a request that is not there writes to its neighbour's rows"),
)  # fmt: skip
