// tree_accept: the greedy walk of each tree against the target's predictions.
//
// One block per request. All threads check every link and bring the tree into shared memory; one thread
// walks it, because each step depends on the one before; all threads write the outputs, every slot.
//
// Checked links only lead to larger slots, so every walk ends.
#include "checks.cuh"

namespace ddtree {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxPath = kMaxDepth + 1;
constexpr int kMaxMaskWords = (kMaxNodes + 31) / 32;

// One request's tree in shared memory.
struct Tree {
    const int32_t* token;
    const int32_t* child;
    const int32_t* sibling;
    const int32_t* predict;
};

struct Result {
    int32_t path[kMaxPath];    // accept_index
    int32_t tokens[kMaxPath];  // out_token
    int32_t accepted;
    int32_t bonus;
    int32_t finished;
};

// A link is none, or leads to a larger slot below node_count that no other link leads to. `targets` has a
// bit for every slot that a link has led to so far.
__device__ bool link_is_good(int32_t link, int node, int live, uint32_t* targets) {
    if (link == kNone) {
        return true;
    }
    if (link <= node || link >= live) {
        return false;
    }
    const uint32_t bit = 1u << (link % 32);
    return (atomicOr(&targets[link / 32], bit) & bit) == 0;
}

__device__ bool is_stop(const ddtree_tree_accept_args& args, int32_t token) {
    for (int i = 0; i < args.T; ++i) {
        if (args.stop_token[i] == token) {
            return true;
        }
    }
    return false;
}

// First child of `node`, in link order, that carries the predicted token.
__device__ int matching_child(const Tree& tree, int node) {
    const int32_t wanted = tree.predict[node];
    if (wanted == kNone) {
        return kNone;
    }
    int child = tree.child[node];
    while (child != kNone && tree.token[child] != wanted) {
        child = tree.sibling[child];
    }
    return child;
}

// Tokens go out in order, accepted drafts and then the bonus, until a stop token or the limit ends the
// request. What ends it is still accepted and emitted; nothing after it is.
__device__ void walk(const ddtree_tree_accept_args& args, const Tree& tree, int32_t limit, Result& result) {
    int node = 0;
    int emitted = 0;
    bool finished = limit <= 0;
    while (!finished && result.accepted < args.depth_limit) {
        const int child = matching_child(tree, node);
        if (child == kNone) {
            break;
        }
        node = child;
        const int32_t token = tree.token[node];
        result.accepted += 1;
        result.path[result.accepted] = node;
        result.tokens[emitted++] = token;
        finished = emitted >= limit || is_stop(args, token);
    }
    const int32_t bonus = tree.predict[node];
    if (!finished && bonus != kNone) {
        result.bonus = bonus;
        result.tokens[emitted++] = bonus;
        finished = emitted >= limit || is_stop(args, bonus);
    }
    result.finished = finished;
}

__global__ void __launch_bounds__(kThreads) tree_accept_kernel(const ddtree_tree_accept_args args) {
    DYN_SMEM(int32_t, memory);
    SHARED(uint32_t, targets, kMaxMaskWords);
    SHARED(Result, shared_result, 1);
    Result& result = shared_result[0];
    const int request = blockIdx.x;
    const int path_length = args.depth_limit + 1;
    const int32_t count = args.node_count[request];
    const bool count_is_good = count >= 0 && count <= args.N;
    const int live = count_is_good ? count : 0;

    for (int i = threadIdx.x; i < kMaxMaskWords; i += kThreads) {
        targets[i] = 0;
    }
    for (int i = threadIdx.x; i < kMaxPath; i += kThreads) {
        result.path[i] = kNone;
        result.tokens[i] = kNone;
    }
    __syncthreads();

    int32_t* token = memory;
    int32_t* child = token + args.N;
    int32_t* sibling = child + args.N;
    int32_t* predict = sibling + args.N;
    const int64_t first = static_cast<int64_t>(request) * args.N;
    bool good = count_is_good;
    for (int node = threadIdx.x; node < live; node += kThreads) {
        token[node] = args.node_token[first + node];
        child[node] = args.next_token[first + node];
        sibling[node] = args.next_sibling[first + node];
        predict[node] = args.target_predict[first + node];
        const bool child_is_good = link_is_good(child[node], node, live, targets);
        const bool sibling_is_good = link_is_good(sibling[node], node, live, targets);
        good = good && child_is_good && sibling_is_good;
    }
    const bool malformed = __syncthreads_or(!good);

    const bool inactive = count == 0;
    if (threadIdx.x == 0) {
        result.accepted = inactive ? kNone : 0;
        result.bonus = kNone;
        result.finished = 0;
        result.path[0] = inactive ? kNone : 0;
        if (!inactive && !malformed) {
            walk(args, {token, child, sibling, predict}, args.token_limit[request], result);
        }
        args.accept_len[request] = result.accepted;
        args.bonus_token[request] = result.bonus;
        args.finished[request] = result.finished;
        args.accept_status[request] = malformed;
    }
    __syncthreads();
    const int64_t out = static_cast<int64_t>(request) * path_length;
    for (int i = threadIdx.x; i < path_length; i += kThreads) {
        args.accept_index[out + i] = result.path[i];
        args.out_token[out + i] = result.tokens[i];
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
    const size_t tree_bytes = 4 * sizeof(int32_t) * args->N;
    return launch_status(LAUNCH(tree_accept_kernel, dim3(args->B), dim3(kThreads), tree_bytes,
                                static_cast<cudaStream_t>(stream), *args));
}
