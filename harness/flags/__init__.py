"""Every flag a case may carry, defined once: the fault it probes and what goes wrong with it."""

from __future__ import annotations

from harness.flags.flag import Flag
from harness.flags.step import STEP_FLAGS

__all__ = ["FLAGS", "Flag"]

FLAGS: dict[str, Flag] = {
    **STEP_FLAGS,
    # Attention.
    "mla": Flag(
        "the absorbed row: key 576 wide, value its first 512",
        "values read from the rope part, or a scale from the wrong width",
    ),
    "gqa": Flag(
        "separate keys and values for each KV head",
        "a query head reads another head's rows",
    ),
    "chain": Flag(
        "a tree without branches, where the mask is causal",
        "none: a causal kernel is right here (exempt from the causal check)",
    ),
    "root_only": Flag(
        "a tree of the root alone",
        "none: no mask can be wrong but the self bit (exempt from the causal check)",
    ),
    "empty": Flag(
        "a batch without a live request",
        "outputs of requests that do not exist are used",
    ),
    "ragged": Flag(
        "requests of different lengths or live counts",
        "one request's length or count is used for another",
    ),
    "zero_prefix": Flag(
        "no committed rows before the tree",
        "division by zero, NaN, or a row of another request",
    ),
    "inactive": Flag(
        "a request of a captured batch that is not there",
        "its stale page table is followed: illegal access or a foreign row",
    ),
    "padded_nodes": Flag(
        "slots past the live nodes, with NaN queries",
        "padding is computed, NaN spreads, or stale rows are returned",
    ),
    "odd_page": Flag(
        "pages of 1, 3, 7, 33 slots: no power of two above 1",
        "slot and page are split by a shift or mask: wrong rows",
    ),
    "many_words": Flag(
        "masks of more than one 32-bit word",
        "nodes past 31 see nothing, or the wrong ancestors",
    ),
    "head_groups": Flag(
        "several query heads on each of several KV heads",
        "heads are grouped interleaved instead of in blocks",
    ),
    "length_edge": Flag(
        "prefix lengths at and next to tile and page edges",
        "the last tile is dropped, or rows past the end join",
    ),
    "tree_shape": Flag(
        "every shape of tree at mask word edges",
        "siblings attend to each other; ancestors are lost",
    ),
    "ragged_batch": Flag(
        "other trees, lengths and pages for every request",
        "offsets of the mask or page table by the wrong pitch",
    ),
    "same_twice": Flag(
        "the same request twice in a batch, in other pages",
        "the answer depends on the place in the batch",
    ),
    "shared_pages": Flag(
        "prefix pages that several requests share",
        "a page is taken for one request's own",
    ),
    "high_pages": Flag(
        "a short prefix in the high pages of a large pool",
        "slots are compared with the length instead of positions",
    ),
    "any_bits": Flag(
        "masks that are no tree",
        "a kernel derives the mask from parents or depths instead of reading it",
    ),
    "self_hidden": Flag(
        "nodes that do not see themselves",
        "the self bit is taken as set",
    ),
    "later_ancestor": Flag(
        "an ancestor with a larger index than its child",
        "the key loop stops at the causal end of the tile",
    ),
    "stray_bits": Flag(
        "random mask bits at and past node_count and in spare bits",
        "rows of nobody, or of another request, are attended",
    ),
    "last_key_only": Flag(
        "the only visible key is the last one",
        "tiles wholly above the diagonal are skipped",
    ),
    "one_key_each": Flag(
        "each row sees one key alone, each another",
        "rows of a tile share the keys of one of them",
    ),
    "sees_nothing": Flag(
        "live rows without any visible key",
        "NaN or a mean over hidden keys instead of 0 and -inf",
    ),
    "zero_query": Flag(
        "equal weights over a last tile that is partly filled",
        "padding joins the denominator: all outputs too small",
    ),
    "peaked": Flag(
        "one key takes nearly all the weight",
        "partial results are merged without rescaling",
    ),
    "large_logits": Flag(
        "logits near +-1000 that differ little",
        "overflow or underflow of exp: infinities, NaN, zeros",
    ),
    "equal_logits": Flag(
        "equal logits over different values",
        "a running maximum or its update loses keys",
    ),
    "other_scale": Flag(
        "a scale other than one over the root of the width",
        "a hard-coded scale, or one from 576 instead of 192",
    ),
    "huge_hidden": Flag(
        "values of 2^60 in nodes that others must not see",
        "a hidden key gets a tiny weight instead of none",
    ),
    "large_shape": Flag(
        "many nodes, heads or keys at once",
        "limits of grids, shared memory or workspace",
    ),
    "planted": Flag(
        "the whole step without a model: attention decides what is accepted",
        "an error of mask, position, length or scale that leaves the accepted tokens alone",
    ),
}
