// tree_build, as plainly as it can be said, and what can go wrong with it.
//
// Every node that is taken has one candidate: the best of its children that is not yet taken. So the
// frontier is one candidate a node, and the tree is: `budget` times, take the best candidate of all nodes.
// One block per request; its threads share the nodes, the last takes the winner.
#include "device.h"
#include "tree_growth.h"

namespace mutants {
namespace {

// This thread's share of the entries: is each a number <= 0, and no row rising?
__device__ bool share_is_good(const Rows& rows, Switch mutant) {
    int entries = rows.depths * rows.candidates;
    if (mutant(build_checks_first_row_only)) {
        entries = rows.candidates;
    } else if (mutant(build_checks_miss_last_entry)) {
        entries -= 1;
    }
    bool good = true;
    for (int i = threadIdx.x; i < entries; i += kThreads) {
        const float value = rows.logprob[i];
        const bool is_nan = value != value && !mutant(build_nan_passes) &&
                            !(mutant(build_negative_nan_passes) && std::signbit(value));
        const bool positive = value > 0.0f && !mutant(build_positive_passes);
        const bool rises = i % rows.candidates != 0 && value > rows.logprob[i - 1] &&
                           !mutant(build_unsorted_passes) &&
                           !(mutant(build_rise_of_an_ulp_passes) && value > -9.5f);
        good = good && !is_nan && !positive && !rises;
    }
    return good;
}

__device__ void write_nodes(const ddtree_tree_build_args& args, const Nodes& nodes, int request, int live,
                            int32_t padding, Switch mutant) {
    const int64_t first = static_cast<int64_t>(request) * args.N;
    const int64_t rows_of = mutant(build_tokens_of_first_request) ? 0 : request;
    const int32_t* tokens = args.topk_token + rows_of * args.L * args.K;
    const int32_t prefix = args.prefix_len[mutant(build_prefix_of_first_request) ? 0 : request];
    const int slots = live > args.N || mutant(build_padding_unwritten) ? live : args.N;
    for (int node = threadIdx.x; node < slots; node += kThreads) {
        if (node >= live) {
            args.node_token[first + node] = args.node_parent[first + node] = args.node_depth[first + node] =
                args.position[first + node] = args.next_token[first + node] = args.next_sibling[first + node] =
                    padding;
            continue;
        }
        const int depth = nodes.depth[node], rank = nodes.rank[node];
        const int row = mutant(build_token_of_next_depth) ? (depth < args.L ? depth : args.L - 1)
                                                           : (depth <= args.L ? depth - 1 : args.L - 1);
        int32_t token = node == 0       ? args.root_token[request]
                        : rank == kNone ? kNone
                                        : tokens[row * args.K + rank];
        if (mutant(build_token_is_rank) && node != 0) {
            token = rank;
        }
        int32_t position = prefix + depth;
        if (mutant(build_position_is_slot)) {
            position = prefix + node;
        } else if (mutant(build_position_without_prefix)) {
            position = depth;
        } else if (mutant(build_position_in_float)) {
            const float sum = static_cast<float>(prefix) + depth;
            position = static_cast<int32_t>(within(static_cast<int64_t>(sum), 0, INT32_MAX));
        } else if (mutant(build_position_from_one)) {
            position = prefix + depth + 1;
        }
        args.node_token[first + node] = token;
        int32_t parent = nodes.parent[node];
        if (mutant(build_parent_is_previous)) {
            parent = node - 1;
        } else if (mutant(build_parent_counts_the_batch) && parent != kNone) {
            parent += request * args.N;
        }
        args.node_parent[first + node] = parent;
        args.node_depth[first + node] = mutant(build_depth_is_slot) ? node : depth;
        args.position[first + node] = position;
        args.next_token[first + node] = nodes.child[node];
        args.next_sibling[first + node] = nodes.sibling[node];
    }
}

__device__ bool is_ancestor_or_self(const Nodes& nodes, int of, int node, Switch mutant) {
    if (mutant(build_mask_causal)) {
        return node <= of;
    }
    if (mutant(build_mask_without_self) && node == of) {
        return false;
    }
    if (mutant(build_mask_parent_only)) {
        return node == of || node == 0 || (of > 0 && node == nodes.parent[of]);
    }
    for (int seen = of, steps = 0; seen != kNone && steps <= kMaxNodes; ++steps) {
        if (seen == node) {
            return true;
        }
        const int above = nodes.parent[seen];
        seen = above == seen ? kNone : above;
    }
    return false;
}

// Mask rows are cleared word by word by all threads, then each row is filled by one.
__device__ void write_mask(const ddtree_tree_build_args& args, const Nodes& nodes, int request, int live,
                           Switch mutant) {
    const int64_t table = mutant(build_mask_of_first_request) ? 0 : static_cast<int64_t>(request) * args.N;
    const int words = mutant(build_mask_pitch_of_live) && live > 0 ? words_of(live) : args.W;
    uint32_t* mask = args.tree_mask + table * args.W;
    const int cleared = mutant(build_mask_padding_unwritten) ? live : args.N;
    const bool clears = !mutant(build_mask_not_cleared) && !mutant(device_mask_cleared_beside_stream);
    come_late(mutant(build_barrier_missing_in_mask) && threadIdx.x >= kWarp);
    for (int i = threadIdx.x; i < cleared * args.W && clears; i += kThreads) {
        mask[i] = 0;
    }
    if (!mutant(build_barrier_missing_in_mask)) {
        __syncthreads();
    }
    const int rows = live < args.N ? live : args.N;
    for (int node = threadIdx.x; node < rows; node += kThreads) {
        for (int other = 0; other < rows; ++other) {
            const bool seen = mutant(build_mask_transposed) ? is_ancestor_or_self(nodes, other, node, mutant)
                                                            : is_ancestor_or_self(nodes, node, other, mutant);
            const bool no_room = mutant(build_mask_last_word_missed) && args.W > 1 && other / 32 == args.W - 1;
            if (seen && !no_room && !(mutant(build_mask_one_word) && other >= 32)) {
                mask[node * words + other / 32] |= 1u << (other % 32);
            }
        }
        if (mutant(build_mask_spare_bits) && args.N % 32 != 0) {
            mask[node * words + args.N / 32] |= ~0u << (args.N % 32);
        }
    }
}

__global__ void tree_build_kernel(const ddtree_tree_build_args args, const Switch mutant) {
    DYN_SMEM(unsigned char, memory);
    const int request = blockIdx.x;
    const int64_t rows_of = mutant(build_rows_of_first_request) ? 0 : request;
    const Rows rows = {args.topk_logprob + rows_of * args.L * args.K, args.L, args.K};
    const int32_t* tokens = args.topk_token + static_cast<int64_t>(request) * args.L * args.K;
    const Nodes nodes(memory, args.N);

    const bool active = args.root_token[request] != kNone || mutant(build_inactive_builds);
    bool good = share_is_good(rows, mutant);
    if (mutant(build_bad_request_spoils_batch)) {
        for (int other = 0; other < args.B; ++other) {
            const float* theirs = args.topk_logprob + static_cast<int64_t>(other) * args.L * args.K;
            good = good && share_is_good({theirs, args.L, args.K}, mutant);
        }
    }
    const bool bad = __syncthreads_or(!good) && (active || mutant(build_inactive_status));
    int budget = active && (!bad || mutant(build_bad_tree_kept)) ? args.budget : 0;
    if (mutant(build_budget_one_short) && budget > 0) {
        budget -= 1;
    } else if (mutant(build_one_node_too_many) && budget > 0) {
        budget += 1;
    }
    const int grown = grow(nodes, rows, tokens, budget, mutant);
    const bool there = active || mutant(build_inactive_has_root);
    const int live = there && !(bad && mutant(build_bad_tree_empty)) ? grown : 0;
    if (threadIdx.x == 0) {
        args.node_count[request] = mutant(build_count_without_root) && live > 0 ? live - 1 : live;
        args.tree_status[request] = bad && !mutant(build_bad_status_missing);
    }
    const bool zero = mutant(build_padding_is_zero) || (!active && mutant(build_inactive_is_zero));
    write_nodes(args, nodes, request, live, zero ? 0 : kNone, mutant);
    write_mask(args, nodes, request, live, mutant);
}

}  // namespace
}  // namespace mutants

extern "C" int32_t ddtree_tree_build(const ddtree_tree_build_args* args, void*, uint64_t, void* stream) {
    using namespace mutants;
    if (!readable(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    const Switch mutant = current();
    if (mutant(device_mask_cleared_beside_stream)) {
        clear_beside(args->tree_mask, sizeof(uint32_t) * args->B * args->N * args->W);
    }
    const auto on = mutant(device_build_on_default_stream) ? nullptr : static_cast<cudaStream_t>(stream);
    const size_t room = Nodes::bytes(args->N);
    return status_of(LAUNCH(tree_build_kernel, dim3(args->B), dim3(kThreads), room, on, *args, mutant));
}
