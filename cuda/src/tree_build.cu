// tree_build: the best-first draft tree of each request, from its sorted candidates per depth.
//
// One block per request: check the rows (tree_rows.cuh), find a score that `budget` candidates reach
// (tree_threshold.cuh), take all candidates that reach it (tree_levels.cuh, tree_chains.cuh), order them
// (tree_order.cuh), write the outputs (tree_outputs.cuh). Where too many candidates reach it, a better one is
// taken from those found; where too many tie with the last node, the ties are spelled out (tree_ties.cuh). Every
// slot of every output is written. For large trees several blocks do all of this and share the outputs.
#include <type_traits>

#include "checks.cuh"
#include "tree_chains.cuh"
#include "tree_layout.cuh"

namespace ddtree {
namespace {

constexpr int kFewLevels = 8;  // so few are found one after the other

// Of a chain beside the trunk, as many as registers hold.
template <int kThreads>
constexpr int kChainSteps = kThreads <= kMediumThreads ? kSpareDepths : kSpareDepths / 2;

template <int kThreads, bool kSmall, bool kRowsShared>
__global__ void __launch_bounds__(kThreads, 1)
    tree_build_kernel(const ddtree_tree_build_args args, const Layout layout) {
    DYN_SMEM(unsigned char, memory);
    Fixed& fixed = *reinterpret_cast<Fixed*>(memory);
    int32_t* words = fixed.words;
    const int request = layout.shares == 1 ? blockIdx.x : blockIdx.x / layout.shares;
    const int share = blockIdx.x - request * layout.shares;
    const Nodes nodes(memory + layout.search.nodes, args.N);
    const OrderMemory order(memory + layout.search.order, layout.search.capacity);
    using Count = typename std::conditional<kSmall, CountPairs, CountAll>::type;
    const Count counting = {{memory + layout.count, args.L}};
    uint32_t* tile = reinterpret_cast<uint32_t*>(memory + layout.tile);
    const ChainMemory chains = {fixed.trunk, order.placed, words};
    const BoundMemory bound = {fixed.trunk, fixed.cost, fixed.excess};
    double* heads = reinterpret_cast<double*>(memory + layout.heads);
    nodes.clear(args.N);
    clear_heads(heads, args.L, layout.kept);
    bound.clear();
    order.clear();
    const Candidates unordered(memory + layout.search.found, layout.search.capacity, false);
    unordered.clear(0, kPaddedCandidates);
    unordered.clear_links(layout.search.capacity);
    counting.memory.clear(args.L);
    chains.clear();
    int32_t* ties = words + ChainMemory::kCounts;
    if (threadIdx.x == 0) {
        *ties = 0;
    }
    if (layout.own_tile) {
        clear_words(tile, layout.tile_rows * args.W);
    }
    const int rank = rank_of_bound(args.budget);
    const Quad mine(threadIdx.x, args.K);
    const int64_t rows_begin = static_cast<int64_t>(request) * args.L * args.K;
    const float* source = args.topk_logprob + rows_begin;
    const int32_t* tokens = args.topk_token + rows_begin;
    const int64_t outputs = static_cast<int64_t>(request) * args.N;
    uint32_t* mask = args.tree_mask + outputs * args.W;
    const bool narrow = kSmall && args.K <= kNarrow && args.L < kThreads / kWarp;
    const Early early(source, args.L, args.K, narrow);
    const int32_t* root_at = args.root_token + request;
    const int32_t* prefix_at = args.prefix_len + request;
    if (early.exists) {
        will_read(early.at);
    }
    will_read(root_at);
    will_read(prefix_at);
    __syncthreads();         // what is clear is seen by all: rows and bound follow without another barrier
    grid_dependency_wait();  // shared memory and addresses were prepared before it
    grid_dependency_release();

    float first = early.exists ? *early.at : early.otherwise;
    const int32_t root = *root_at;
    const int32_t prefix = *prefix_at;
    float* copy = reinterpret_cast<float*>(memory + layout.rows);
    const Rows rows = {kRowsShared ? copy : source, heads, args.L, layout.kept,
                       kRowsShared ? layout.kept : args.K};
    bool valid;
    if (narrow) {
        valid = load_narrow(early.at, first, args.L, args.K, copy, layout.kept);
    } else {
        valid = load_rows<kRowsShared>(source, args.L, args.K, copy, layout.kept, mine);
        __syncthreads();
        const int warp = threadIdx.x / kWarp;
        if (warp < min(args.L, kThreads / kWarp - 1)) {
            first = rows.row(warp + 1)[min(static_cast<int>(threadIdx.x) % kWarp, layout.kept - 1)];
        }
    }
    begin_bound(bound, rows, rank, first, heads, ties);
    const bool active = root != kNone;  // an inactive request's rows do not matter
    const bool bad = __syncthreads_or(active && !valid);

    int live = active;
    if (__builtin_expect(active && !bad && args.budget > 0, 1)) {
        const Threshold threshold =
            find_threshold(counting, rows, args.budget, rank, layout.search.capacity, bound);
        // Chains are quicker where they are long. Where log-probs tie in their rows so do candidates, and tuples
        // are compared more quickly in order.
        const float whole_cost = bound.cost[args.L - 1];
        const bool many_ties = *ties > args.L;
        const bool long_chains = (args.L > kFewLevels) & (2.0f * whole_cost <= -static_cast<float>(threshold.least));
        const bool in_order = !long_chains | many_ties;
        const Candidates found(memory + layout.search.found, layout.search.capacity, in_order);
        int count = 0;
        if (!in_order) {
            count = grow_chains<kChainSteps<kThreads>>({chains, found, rows, threshold.least, layout.search.capacity});
        } else if (!kSmall || threadIdx.x < kWarp) {
            const Team<kSmall> team = {fixed.warp_total};
            count = grow_levels(team, found, rows, threshold.least, layout.search.capacity);
        }
        if (kSmall && in_order) {
            if (threadIdx.x == 0) {
                words[0] = count;
            }
            __syncthreads();
            count = words[0];
        }
        if (__builtin_expect(count != kOverflow, 1)) {
            number_nodes(order, {fixed.warp_total}, found, nodes, count, args.budget, threshold.lowest);
            live = 1 + min(count, args.budget);
        } else {
            live = build_hard(layout.search, rows, args.N, threshold, fixed.warp_total, words);
        }
    }

    if (threadIdx.x == 0 && share == 0) {
        args.node_count[request] = live;
        args.tree_status[request] = bad;
    }
    const Slots slots = {share * layout.share, min((share + 1) * layout.share, args.N)};
    const Request its = {tokens, outputs, mask, root, prefix, live};
    write_tree(args, its, nodes, slots, tile, layout.tile_rows, layout.own_tile);
}

bool valid(const ddtree_tree_build_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->L, 1, kMaxDepth) &&
           within(args->K, 1, kMaxCandidates) && within(args->N, 1, kMaxNodes) &&
           args->budget == args->N - 1 && args->W == ceil_div(args->N, 32) &&
           present(args->topk_logprob, args->topk_token, args->root_token, args->prefix_len,
                   args->node_token, args->node_parent, args->node_depth, args->position,
                   args->next_token, args->next_sibling, args->tree_mask, args->node_count,
                   args->tree_status);
}

template <int kThreads, bool kSmall, bool kRowsShared>
cudaError_t launch(const ddtree_tree_build_args& args, bool whole_tile, cudaStream_t stream) {
    const Layout layout = layout_of(args, kRowsShared, whole_tile);
    return LAUNCH_DEPENDENT((tree_build_kernel<kThreads, kSmall, kRowsShared>), dim3(args.B * layout.shares),
                            dim3(layout.threads), layout.bytes, stream, args, layout);
}

template <int kThreads>
cudaError_t launch_large(const ddtree_tree_build_args& args, cudaStream_t stream) {
    if (args.L * min(args.budget, args.K) * static_cast<int>(sizeof(float)) <= kSharedRowBytes) {
        const cudaError_t error = launch<kThreads, false, true>(args, true, stream);
        if (error != cudaErrorInvalidValue) {
            return error;
        }
        // The device has less shared memory than this block wants.
    }
    return launch<kThreads, false, false>(args, false, stream);
}

cudaError_t launch(const ddtree_tree_build_args& args, cudaStream_t stream) {
    return args.budget <= kSmallBudget    ? launch<kMediumThreads, true, true>(args, true, stream)
           : args.budget <= kMediumBudget ? launch_large<kMediumThreads>(args, stream)
                                          : launch_large<kLargeThreads>(args, stream);
}

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_tree_build(const ddtree_tree_build_args* args, void*, uint64_t, void* stream) {
    using namespace ddtree;
    if (!valid(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    return launch_status(launch(*args, static_cast<cudaStream_t>(stream)));
}
