// The greedy walk of one tree against the target's predictions, by a whole block.
//
// All in shared memory. The threads check every link and turn the links around: each node learns its parent by
// pointer doubling along its elder siblings. Then every node whose token its parent predicts offers itself, and
// the smallest of a parent's offers is its first match in link order, because checked links only lead to
// larger slots. What is left of the walk is one load per step; the first warp does it, and then looks at all
// tokens of the path at once.
#pragma once

#include "checks.cuh"

namespace ddtree {

constexpr int kMaxAcceptThreads = 544;
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

// What the walk came to. `node` and `token` are those of step lane + 1, of a lane below `accepted`.
struct Path {
    int32_t node;
    int32_t token;
    int32_t accepted;  // drafts; -1 without a tree
    int32_t bonus;
    bool finished;
    bool malformed;
};

__device__ __forceinline__ Path no_path(bool malformed) {
    return {kNone, kNone, malformed ? 0 : kNone, kNone, false, malformed};
}

// Called by the first warp. Tokens go out in order, accepted drafts and then the bonus, until a stop token or the
// limit ends the request. What ends it is still accepted and emitted; nothing after it is.
__device__ __forceinline__ Path walk(const Tree& tree, const Stops& stops, int depth_limit, int32_t limit) {
    const int lane = threadIdx.x;
    int node = 0;
    int mine = tree.nodes;  // node of my step, lane + 1
    for (int step = 0; step < depth_limit && node < tree.nodes; step += kStepsAtOnce) {
#pragma unroll
        for (int i = 0; i < kStepsAtOnce; ++i) {
            node = tree.match[node];
            mine = lane == step + i ? node : mine;
        }
    }
    const bool on_path = mine < tree.nodes && lane < depth_limit;
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
    const unsigned ends = __ballot_sync(kFullWarp, on_path && (token_stops || lane + 1 >= limit));
    const bool cut = limit <= 0 || ends != 0;
    const int accepted = limit <= 0 ? 0 : ends != 0 ? __ffs(static_cast<int>(ends)) : steps;
    const bool gives_bonus = !cut && bonus != kNone;
    const bool finished = cut || (gives_bonus && (bonus_stops || accepted + 1 >= limit));
    return {mine, token, accepted, gives_bonus ? bonus : kNone, finished, false};
}

// The outputs of one request, by the first warp.
__device__ __forceinline__ void write_path(const ddtree_tree_accept_args& args, int request, const Path& path) {
    const int lane = threadIdx.x;
    const int64_t out = static_cast<int64_t>(request) * (args.depth_limit + 1);
    if (lane < args.depth_limit) {
        args.accept_index[out + 1 + lane] = lane < path.accepted ? path.node : kNone;
    }
    if (lane <= args.depth_limit) {
        args.out_token[out + lane] = lane < path.accepted ? path.token : lane == path.accepted ? path.bonus : kNone;
    }
    if (lane == 0) {
        args.accept_index[out] = path.accepted >= 0 ? 0 : kNone;
        if (args.depth_limit == kWarp) {
            args.out_token[out + kWarp] = path.accepted == kWarp ? path.bonus : kNone;
        }
        args.accept_len[request] = path.accepted;
        args.bonus_token[request] = path.bonus;
        args.finished[request] = path.finished;
        args.accept_status[request] = path.malformed;
    }
}

// Before anything is read from global memory.
template <int kEach>
__device__ __forceinline__ void clear_tree(const Tree& tree) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int node = threadIdx.x + i * blockDim.x;
        if (node < tree.nodes) {
            tree.match[node] = tree.nodes;
            tree.reach[node] = kUnreached;
        }
    }
    if (threadIdx.x == 0) {
        tree.match[tree.nodes] = tree.nodes;
    }
}

// For the whole block, on a cleared tree; `stops` has room for kSharedStops. The first warp gets the path.
template <int kEach>
__device__ __forceinline__ Path accept_path(const ddtree_tree_accept_args& args, const Tree& tree, int32_t* stops,
                                            int request) {
    const int threads = static_cast<int>(blockDim.x);
    const int self = static_cast<int>(threadIdx.x);
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
        return no_path(malformed);  // the whole block
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
    return self < kWarp ? walk(tree, {stops, args.stop_token, args.T}, args.depth_limit, limit) : no_path(false);
}

inline bool valid(const ddtree_tree_accept_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->N, 1, kMaxNodes) &&
           args->T >= 0 && within(args->depth_limit, 1, kMaxDepth) &&
           present(args->node_token, args->next_token, args->next_sibling, args->target_predict,
                   args->node_count, args->token_limit, args->accept_index, args->accept_len,
                   args->bonus_token, args->out_token, args->finished, args->accept_status) &&
           (args->T == 0 || args->stop_token != nullptr);
}

}  // namespace ddtree
