// tree_build: the best-first draft tree of each request, from its sorted candidates per depth.
//
// One block per request. All threads check the rows, the first warp grows the tree (frontier.cuh), all
// threads write the outputs. Every slot of every output is written.
#include "checks.cuh"
#include "frontier.cuh"

namespace ddtree {
namespace {

constexpr int kThreads = 128;

// This thread's share of the L x K entries: is each of them a number <= 0, and no row rising?
// -inf may stand at the end of a row only, which "not rising" says as well.
__device__ bool share_is_valid(const Rows& rows) {
    bool valid = true;
    const int entries = rows.depths * rows.candidates;
    for (int i = threadIdx.x; i < entries; i += kThreads) {
        const float value = rows.logprob[i];
        const bool rises = i % rows.candidates != 0 && value > rows.logprob[i - 1];
        valid = valid && value <= 0.0f && !rises;  // NaN fails value <= 0
    }
    return valid;
}

__device__ void write_nodes(const ddtree_tree_build_args& args, const Search& s, int request, int live) {
    const int64_t first = static_cast<int64_t>(request) * args.N;
    const int32_t* tokens = args.topk_token + static_cast<int64_t>(request) * args.L * args.K;
    const int32_t prefix = args.prefix_len[request];
    for (int node = threadIdx.x; node < args.N; node += kThreads) {
        int32_t token = kNone, parent = kNone, depth = kNone, position = kNone;
        int32_t child = kNone, sibling = kNone;
        if (node < live) {
            parent = s.node_parent[node];
            depth = s.node_depth[node];
            token = node == 0 ? args.root_token[request] : tokens[(depth - 1) * args.K + s.node_rank[node]];
            position = prefix + depth;
            child = s.first_child[node];
            sibling = s.next_sibling[node];
        }
        args.node_token[first + node] = token;
        args.node_parent[first + node] = parent;
        args.node_depth[first + node] = depth;
        args.position[first + node] = position;
        args.next_token[first + node] = child;
        args.next_sibling[first + node] = sibling;
    }
}

// Sets the bits of each live node and its ancestors in mask rows that hold 0. Ancestors come in falling
// order, so each word is finished before the next one is begun.
__device__ void write_mask_bits(uint32_t* mask, int words, const Search& s, int live) {
    for (int node = threadIdx.x; node < live; node += kThreads) {
        uint32_t* row = mask + node * words;
        int word = node / 32;
        uint32_t bits = 0;
        for (int seen = node; seen != kNone; seen = s.node_parent[seen]) {
            if (seen / 32 != word) {
                row[word] = bits;
                word = seen / 32;
                bits = 0;
            }
            bits |= 1u << (seen % 32);
        }
        row[word] = bits;
    }
}

__global__ void __launch_bounds__(kThreads) tree_build_kernel(const ddtree_tree_build_args args) {
    DYN_SMEM(unsigned char, memory);
    SHARED(int, grown, 1);
    const int request = blockIdx.x;
    const Rows rows = {args.topk_logprob + static_cast<int64_t>(request) * args.L * args.K, args.L, args.K};
    const Search search(memory, args.N);

    const bool active = args.root_token[request] != kNone;  // an inactive request's rows do not matter
    const bool bad = __syncthreads_or(active && !share_is_valid(rows));
    if (threadIdx.x < kWarp) {
        const int count = grow_tree(search, rows, args.N, active && !bad ? args.budget : 0);
        if (threadIdx.x == 0) {
            grown[0] = count;
        }
    }
    __syncthreads();

    const int live = active ? grown[0] : 0;
    if (threadIdx.x == 0) {
        args.node_count[request] = live;
        args.tree_status[request] = bad;
    }
    write_nodes(args, search, request, live);

    uint32_t* mask = args.tree_mask + static_cast<int64_t>(request) * args.N * args.W;
    for (int i = threadIdx.x; i < args.N * args.W; i += kThreads) {
        mask[i] = 0;
    }
    __syncthreads();  // the words of a row are cleared by many threads, its bits are set by one
    write_mask_bits(mask, args.W, search, live);
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
    return launch_status(LAUNCH(tree_build_kernel, dim3(args->B), dim3(kThreads), Search::bytes(args->N),
                                static_cast<cudaStream_t>(stream), *args));
}
