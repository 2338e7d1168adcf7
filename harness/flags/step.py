"""Flags of tree_build, tree_accept, kv_commit and greedy_step."""

from __future__ import annotations

from harness.flags.flag import Flag

STEP_FLAGS: dict[str, Flag] = {
    # Building the tree.
    "every_magnitude": Flag(
        "valid log-probs from the smallest to the largest float32",
        "subnormal values flushed to 0, or very low ones taken for -inf: another tree",
    ),
    "best_first": Flag(
        "trees by score, each in its rank order", "a worse tree: fewer tokens accepted in each step"
    ),
    "word_edge": Flag(
        "node counts next to a multiple of 32",
        "ancestors past bit 31 are lost, or spare bits are set",
        ("NVIDIA/TensorRT-LLM#12962", "NVIDIA/TensorRT-LLM#8586"),
    ),
    "ties": Flag(
        "equal scores, ordered by rank tuple",
        "another tree on each device, or from call to call",
        ("pytorch/pytorch#27542", "pytorch/pytorch#127196"),
    ),
    "all_equal": Flag(
        "rows in which nearly every score is equal",
        "buffers for ties overflow: slots stay unset, nodes appear twice",
        ("sgl-project/sglang#30512", "NVIDIA/TensorRT-LLM#15756"),
    ),
    "off_grid": Flag(
        "log-probs that are no multiples of 2^-20", "fixed-point scores are truncated: wrong order"
    ),
    "float32_sums": Flag(
        "scores that only float64 tells apart", "float32 sums tie: nodes in the wrong order"
    ),
    "sums_round": Flag(
        "float64 sums that tie by rounding, under parents that do not",
        "an exact or compensated sum orders other nodes first",
    ),
    "running_difference": Flag(
        "sums that a difference from sibling to sibling rounds otherwise",
        "two nodes in the other order, or another last node",
    ),
    "rank_cap": Flag(
        "nodes that a limit of candidates by rank of the parent drops",
        "nodes of the right tree are missing",
    ),
    "probability_product": Flag(
        "paths whose probability underflows float32",
        "deep nodes all score 0 and stand in any order",
        ("sgl-project/sglang#12637",),
    ),
    "no_candidate": Flag(
        "-inf at the end of rows and whole levels of it",
        "nodes without a token, or id 0, enter the tree",
        ("flashinfer-ai/flashinfer#5187",),
    ),
    "star": Flag(
        "depth limit 1: siblings only",
        "a builder that expects a second level raises or writes past it",
        ("NVIDIA/TensorRT-LLM#10323",),
    ),
    "deepest": Flag("32 levels", "paths are cut, or a per-depth buffer overflows"),
    "many_candidates": Flag("100 to 1,024 candidates in a row", "ranks past a tile or a small type are lost"),
    "short_tree": Flag(
        "fewer candidates than the budget",
        "slots past node_count hold copies, junk or a wrong count",
        ("flashinfer-ai/flashinfer#5187", "vllm-project/vllm#42910"),
    ),
    "repeated_tokens": Flag("one token at several depths", "nodes are told apart by token: branches merge"),
    "sparse_tokens": Flag(
        "ids far apart, in no order, up to 2^31 - 1",
        "the place in the candidate list is taken for the token",
        ("sgl-project/sglang#29907",),
    ),
    "huge_prefix": Flag("positions just below 2^31", "positions overflow, or lose bits in a float"),
    "bad_rows": Flag(
        "NaN, positive or unsorted log-probs",
        "a tree of junk without a word, or a builder that never ends",
        ("sgl-project/sglang#32396",),
    ),
    "nan": Flag(
        "NaN of either sign",
        "NaN wins or loses by its sign bit",
        ("pytorch/pytorch#117617", "vllm-project/vllm#50183"),
    ),
    "unsorted": Flag("a row that rises by as little as one ulp", "the search misses better candidates"),
    "unreached": Flag("a bad value that the search never reaches", "the status depends on the budget"),
    "neighbours_good": Flag(
        "a bad request between good ones",
        "the whole batch is refused or spoilt by one request",
        ("sgl-project/sglang#36201",),
    ),
    # Accepting a path.
    "walk": Flag("trees of every shape, most nodes predicted right", "wrong tokens in the output"),
    "not_best_first": Flag(
        "parents before children, but in no order of score", "only trees of one builder are walked right"
    ),
    "nothing_accepted": Flag(
        "no child of the root is right", "old entries stay in the accept row", ("vllm-project/vllm#2658",)
    ),
    "all_accepted": Flag("the deepest path is right", "the last draft or the bonus is lost"),
    "late_sibling": Flag(
        "the right child is not the first",
        "later branches never match, or the bonus is read at the first",
        ("trymirai/lalamo#209",),
    ),
    "not_a_child": Flag(
        "the prediction is the token of a sibling, cousin, grandchild or parent",
        "a token is accepted that the target did not predict there",
    ),
    "later_match": Flag(
        "a path that is right from its second node on",
        "matches behind a miss are counted",
        ("vllm-project/vllm#2658", "vllm-project/vllm#10604"),
    ),
    "duplicate_siblings": Flag("siblings with one token", "the walk goes on under the later one"),
    "no_prediction": Flag(
        "predictions and tokens of -1",
        "-1 matches -1: padding is accepted, or -1 is used as an address",
        ("vllm-project/vllm#50939", "Luce-Org/lucebox#301"),
    ),
    "off_first_branch": Flag(
        "an accepted path with gaps, such as slots 0, 2, 5",
        "the path is taken for the first slots: wrong tokens or rows of KV",
        ("sgl-project/sglang#26866", "warpfront/hipfire#534"),
    ),
    "deeper_than_limit": Flag("a tree deeper than depth_limit", "accept rows are overrun"),
    "stop_token": Flag(
        "a stop token on the accepted run",
        "text goes on behind the end, and its KV is kept",
        ("sgl-project/sglang#33758", "ggml-org/llama.cpp#28049"),
    ),
    "token_limit": Flag(
        "a run that reaches the length limit",
        "more tokens than were asked for",
        ("huggingface/transformers#47912",),
    ),
    "stop_and_limit": Flag("a stop token next to the limit", "the later of two ends wins"),
    "hostile_padding": Flag(
        "slots past node_count with tokens and links that fit",
        "nodes that do not exist are accepted",
        ("vllm-project/vllm#50939",),
    ),
    "token_zero": Flag("token 0 as a draft and as a bonus", "0 is taken for none: the step ends early"),
    "narrow_tokens": Flag(
        "sibling tokens that differ only above bit 15 or 23",
        "tokens compared as 16-bit or float values: the wrong child is accepted",
    ),
    "many_requests": Flag("33 and 80 requests in one call", "requests past a warp or block are not served"),
    "bad_links": Flag(
        "cycles, self links, links backwards or out of range, two parents",
        "the kernel hangs or reads outside its arrays",
        ("sgl-project/sglang#35822", "elizaOS/eliza#22392"),
    ),
    "bad_count": Flag("node_count below 0 or above N", "reads outside the arrays"),
    "unwalked_links": Flag(
        "bad links beside the walked path", "damage is found only where it is walked over"
    ),
    # Committing rows.
    "commit": Flag("moves of whole rows in two layers", "KV of rejected tokens is kept: later text degrades"),
    "identity": Flag(
        "a path without gaps: nothing moves", "rows are moved by one, or the root's row is lost"
    ),
    "overlapping_moves": Flag(
        "targets that are the source of another move",
        "a row is read after it was overwritten",
        ("warpfront/hipfire#534",),
    ),
    "page_border": Flag("moves from one page into another", "rows go to the next page of the pool instead"),
    "partial_page": Flag(
        "the tail starts inside a page that holds prefix rows",
        "committed rows beside the tail are moved or cleared",
        ("sgl-project/sglang#31218",),
    ),
    "odd_row_bytes": Flag("rows that are no multiple of 16 bytes", "wide copies touch the neighbouring row"),
    "many_layers": Flag("61 layers", "layers past a grid limit or a fixed table keep their old rows"),
    "neighbour_pages": Flag(
        "requests in pages next to each other", "one request's rows land in another's page"
    ),
    "long_moves": Flag("32 drafts from slots up to 1,024", "moves past one block's reach are dropped"),
    "far_pool": Flag(
        "pages past 2^31 bytes of the pool",
        "32-bit offsets wrap: wrong rows or an illegal access",
        ("flashinfer-ai/flashinfer#3136", "vllm-project/vllm#47671"),
    ),
    # Whole steps.
    "greedy": Flag("four kernels in a row", "each kernel is right, their arrays do not fit together"),
    "several_steps": Flag("consecutive steps on one pool", "state of the last step is used in this one"),
    "changing_accepts": Flag(
        "3, then 0, then 1 accepted drafts",
        "lengths fixed when the graph was captured: wrong tokens after a rejected draft",
        ("vllm-project/vllm#41162",),
    ),
    "changing_sizes": Flag(
        "trees that shrink to the root and grow again",
        "links, mask or rows of the larger tree stay behind",
        ("sgl-project/sglang#37553",),
    ),
    "finishes": Flag(
        "a request that ends in one step and sleeps in the next",
        "it goes on emitting, or writes over freed pages",
        ("vllm-project/vllm#56734",),
    ),
    "other_layer": Flag(
        "attention on the last of several layers", "layer 0 is read, or only one layer is committed"
    ),
    "changing_live": Flag(
        "a batch whose live requests change from step to step: 4, 1, 3, 0, 4, 2",
        "requests that left are computed again, new ones inherit their rows",
        ("sgl-project/sglang#6309", "flashinfer-ai/flashinfer#5176"),
    ),
    "same_again": Flag(
        "trees, chains, and the same trees again",
        "the mode or mask of the last step stays: the third step is not the first",
        ("flashinfer-ai/flashinfer#1028", "flashinfer-ai/flashinfer#2690"),
    ),
    "one_change": Flag(
        "one array changes from step to step",
        "a value is fixed when the graph is captured",
        ("Luce-Org/lucebox#482", "spiritbuun/buun-llama-cpp#116"),
    ),
    # Pairs of cases.
    "metamorphic": Flag(
        "one of a few cases with related answers: ids that differ in `side` alone",
        "an answer that depends on order, place, pages or the form of a chain",
        ("NVIDIA/TensorRT-LLM#15842", "Luce-Org/lucebox#415"),
    ),
}
