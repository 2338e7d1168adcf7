// tree_accept: the greedy walk of each tree against the target's predictions.
//
// One block per request, all in shared memory. The threads check every link and turn the links around:
// each node learns its parent by pointer doubling along its elder siblings. Then every node whose token its
// parent predicts offers itself, and the smallest of a parent's offers is its first match in link order,
// because checked links only lead to larger slots. What is left of the walk is one load per step; the first
// warp does it, and then looks at all tokens of the path at once.
#include "checks.cuh"

namespace ddtree {
namespace {

constexpr int kMaxThreads = 544;
constexpr int kOneEach = 512;  // up to this many nodes every thread has one, from here on two
constexpr int kSharedStops = 64;
constexpr int kStepsAtOnce = 8;

// How a node is reached: the slot of its elder sibling, or ~parent for a first child and, in the end, for
// all; kUnreached if no link leads to it, or to the eldest of its siblings.
constexpr int32_t kUnreached = -0x7fffffff - 1;

struct Tree {
    int32_t* token;
    int32_t* predict;
    int32_t* match;  // [nodes + 1]: first child that carries the predicted token; `nodes` is none, and its own
    int32_t* reach;  // [2, nodes]: read one, write the other
    int nodes;

    __host__ __device__ static int bytes(int nodes) { return (5 * nodes + 1) * static_cast<int>(sizeof(int32_t)); }
    __device__ Tree(int32_t* memory, int its_nodes)
        : token(memory),
          predict(token + its_nodes),
          match(predict + its_nodes),
          reach(match + its_nodes + 1),
          nodes(its_nodes) {}
};

// A link is none, or leads to a larger slot below node_count that no other link leads to. Returns what stood
// in the slot's place, kUnreached if all is well.
__device__ __forceinline__ int32_t take_link(int32_t link, int node, int live, int32_t* reach, int32_t how) {
    if (link == kNone) {
        return kUnreached;
    }
    return link > node && link < live ? atomicExch(&reach[link], how) : 0;
}

struct Stops {
    const int32_t* shared;
    const int32_t* all;
    int count;

    __device__ int32_t at(int i) const { return i < kSharedStops ? shared[i] : all[i]; }
};

// Called by the first warp: walks, and writes the request's outputs. Tokens go out in order, accepted drafts
// and then the bonus, until a stop token or the limit ends the request. What ends it is still accepted and
// emitted; nothing after it is.
__device__ void walk(const ddtree_tree_accept_args& args, const Tree& tree, const Stops& stops, int request,
                     int32_t limit) {
    const int lane = threadIdx.x;
    int node = 0;
    int mine = tree.nodes;  // node of my step, lane + 1
    for (int step = 0; step < args.depth_limit && node < tree.nodes; step += kStepsAtOnce) {
#pragma unroll
        for (int i = 0; i < kStepsAtOnce; ++i) {
            node = tree.match[node];
            mine = lane == step + i ? node : mine;
        }
    }
    const bool on_path = mine < tree.nodes && lane < args.depth_limit;
    const int steps = __popc(__ballot_sync(kFullWarp, on_path));
    const int last_step = __shfl_sync(kFullWarp, mine, max(steps - 1, 0));
    const int32_t token = on_path ? tree.token[mine] : kNone;
    const int32_t bonus = tree.predict[steps > 0 ? last_step : 0];
    bool token_stops = false;
    bool bonus_stops = false;
    for (int i = 0; i < stops.count; ++i) {
        const int32_t stop = stops.at(i);
        token_stops = token_stops || stop == token;
        bonus_stops = bonus_stops || stop == bonus;
    }
    const unsigned ends =
        __ballot_sync(kFullWarp, on_path && (token_stops || lane + 1 >= limit));
    const bool cut = limit <= 0 || ends != 0;
    const int accepted = limit <= 0 ? 0 : ends != 0 ? __ffs(static_cast<int>(ends)) : steps;
    const bool gives_bonus = !cut && bonus != kNone;

    const int64_t out = static_cast<int64_t>(request) * (args.depth_limit + 1);
    const int32_t last = gives_bonus ? bonus : kNone;
    if (lane < args.depth_limit) {
        args.accept_index[out + 1 + lane] = lane < accepted ? mine : kNone;
    }
    if (lane <= args.depth_limit) {
        args.out_token[out + lane] = lane < accepted ? token : lane == accepted ? last : kNone;
    }
    if (lane == 0) {
        args.accept_index[out] = 0;
        if (args.depth_limit == kWarp) {
            args.out_token[out + kWarp] = accepted == kWarp ? last : kNone;
        }
        args.accept_len[request] = accepted;
        args.bonus_token[request] = last;
        args.finished[request] = cut || (gives_bonus && (bonus_stops || accepted + 1 >= limit));
        args.accept_status[request] = 0;
    }
}

// The outputs of a request without a walk: inactive, or malformed.
__device__ void refuse(const ddtree_tree_accept_args& args, int request, bool malformed) {
    const int64_t out = static_cast<int64_t>(request) * (args.depth_limit + 1);
    for (int i = threadIdx.x; i <= args.depth_limit; i += blockDim.x) {
        args.accept_index[out + i] = malformed && i == 0 ? 0 : kNone;
        args.out_token[out + i] = kNone;
    }
    if (threadIdx.x == 0) {
        args.accept_len[request] = malformed ? 0 : kNone;
        args.bonus_token[request] = kNone;
        args.finished[request] = 0;
        args.accept_status[request] = malformed;
    }
}

template <int kEach>
__global__ void __launch_bounds__(kMaxThreads) tree_accept_kernel(const ddtree_tree_accept_args args) {
    DYN_SMEM(int32_t, memory);
    SHARED(int32_t, stops, kSharedStops);
    const int request = blockIdx.x;
    const int threads = static_cast<int>(blockDim.x);
    const int self = static_cast<int>(threadIdx.x);
    const Tree tree(memory, args.N);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int node = self + i * threads;
        if (node < args.N) {
            tree.match[node] = tree.nodes;
            tree.reach[node] = kUnreached;
        }
    }
    if (self == 0) {
        tree.match[tree.nodes] = tree.nodes;
    }
    grid_dependency_wait();
    grid_dependency_release();

    // Every load is under way before the first is waited for.
    const int64_t first = static_cast<int64_t>(request) * args.N;
    int32_t token[kEach], child[kEach], sibling[kEach], predict[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int node = min(self + i * threads, args.N - 1);
        token[i] = args.node_token[first + node];
        child[i] = args.next_token[first + node];
        sibling[i] = args.next_sibling[first + node];
        predict[i] = args.target_predict[first + node];
    }
    const int32_t count = args.node_count[request];
    const int32_t limit = args.token_limit[request];
    for (int i = self; i < min(args.T, kSharedStops); i += threads) {  // there may be fewer threads than stops
        stops[i] = args.stop_token[i];
    }
    const bool count_is_good = count >= 0 && count <= args.N;
    const int live = count_is_good ? count : 0;
    __syncthreads();

    bool good = count_is_good;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int node = self + i * threads;
        if (node < live) {
            tree.token[node] = token[i];
            tree.predict[node] = predict[i];
            const int32_t at_child = take_link(child[i], node, live, tree.reach, ~node);
            const int32_t at_sibling = take_link(sibling[i], node, live, tree.reach, node);
            good = good && at_child == kUnreached && at_sibling == kUnreached;
        }
    }
    const bool malformed = __syncthreads_or(!good);
    if (malformed || count == 0) {
        refuse(args, request, malformed);
        return;  // the whole block
    }

    // Elders have smaller slots, so no chain is a circle. After round r a node knows its elder 2^r away.
    int32_t reach[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int node = self + i * threads;
        reach[i] = node < live ? tree.reach[node] : kUnreached;
    }
    int32_t* from = tree.reach;
    int32_t* to = tree.reach + tree.nodes;
    while (true) {
        bool open = false;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int node = self + i * threads;
            reach[i] = reach[i] >= 0 ? from[reach[i]] : reach[i];
            open = open || reach[i] >= 0;
            if (node < live) {
                to[node] = reach[i];
            }
        }
        int32_t* read = from;
        from = to;
        to = read;
        if (!__syncthreads_or(open)) {
            break;
        }
    }

#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        if (reach[i] != kUnreached) {  // so the node is live
            const int parent = ~reach[i];
            if (token[i] != kNone && token[i] == tree.predict[parent]) {
                atomicMin(&tree.match[parent], self + i * threads);
            }
        }
    }
    __syncthreads();
    if (self < kWarp) {
        walk(args, tree, {stops, args.stop_token, args.T}, request, limit);
    }
}

bool valid(const ddtree_tree_accept_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->N, 1, kMaxNodes) &&
           args->T >= 0 && within(args->depth_limit, 1, kMaxDepth) &&
           present(args->node_token, args->next_token, args->next_sibling, args->target_predict,
                   args->node_count, args->token_limit, args->accept_index, args->accept_len,
                   args->bonus_token, args->out_token, args->finished, args->accept_status) &&
           (args->T == 0 || args->stop_token != nullptr);
}

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_tree_accept(const ddtree_tree_accept_args* args, void*, uint64_t, void* stream) {
    using namespace ddtree;
    if (!valid(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    const dim3 blocks(args->B);
    const auto threads_for = [&](int each) { return dim3(kWarp * ceil_div(ceil_div(args->N, each), kWarp)); };
    const int bytes = Tree::bytes(args->N);
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    return launch_status(
        args->N <= kOneEach
            ? LAUNCH_DEPENDENT(tree_accept_kernel<1>, blocks, threads_for(1), bytes, on, *args)
            : LAUNCH_DEPENDENT(tree_accept_kernel<2>, blocks, threads_for(2), bytes, on, *args));
}
