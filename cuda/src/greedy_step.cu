// greedy_step: the four kernels in a row on one stream, the engine's model work between them.
//
// The host only enqueues: nothing is read back, so the whole step can be captured in one graph. The
// workspace is free again when a kernel ends, so all four share it.
//
// Small steps accept and commit in one launch: a block per request and layer walks the tree for itself, which
// takes no longer than one walk, and then moves its rows. It saves the second kernel's wait for the first and
// its reads of what that one wrote.
#include "accept.cuh"
#include "commit.cuh"

namespace ddtree {
namespace {

static_assert(kMostParts * kWarp <= kOneEach, "a block of the walk has a warp for every part");
constexpr int kWalksAtOnce = 256;  // blocks: more would keep each other waiting

__global__ void __launch_bounds__(kOneEach)
    accept_commit_kernel(const ddtree_tree_accept_args accept, const ddtree_kv_commit_args commit,
                         const PageSlots slots, const Parts parts) {
    DYN_SMEM(int32_t, memory);
    SHARED(int32_t, stops, kSharedStops);
    SHARED(Moves, moves, 1);
    SHARED(int32_t, moving, 1);
    const int layer = blockIdx.x;
    const int request = blockIdx.y;
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const Tree tree(memory, accept.N);
    clear_tree<1>(tree);
    grid_dependency_wait();
    grid_dependency_release();

    uint8_t* base = commit.layer_base[layer];
    const int32_t* entries = commit.block_table + static_cast<int64_t>(request) * commit.M;
    const int32_t prefix = commit.prefix_len[request];
    TailPages pages = {entries, slots.page_of(max(prefix, 0)), 0};
    if (warp == 0) {
        pages.load(commit.M);
    }
    const Path path = accept_path<1>(accept, tree, stops, request);
    if (warp == 0) {
        const int count = find_moves(commit, slots, pages, prefix, path.node, path.accepted, moves[0]);
        if (lane == 0) {
            moving[0] = count;
        }
    }
    __syncthreads();
    if (warp < parts.count) {
        move_part(commit, base, parts, warp, moves[0], moving[0]);
    }
    if (warp == 0 && layer == 0) {
        write_path(accept, request, path);
        if (lane == 0) {
            commit.new_len[request] = prefix + path.accepted + 1;
        }
    }
}

// True where one kernel can do both: the commit takes what the walk gives, and the walks fit the device at once.
bool fusible(const ddtree_tree_accept_args& accept, const ddtree_kv_commit_args& commit) {
    return valid(&accept) && valid(&commit) && accept.accept_index == commit.accept_index &&
           accept.accept_len == commit.accept_len && accept.B == commit.B && accept.depth_limit + 1 == commit.A &&
           accept.N <= kOneEach && accept.B > 0 && static_cast<int64_t>(commit.B) * commit.Y <= kWalksAtOnce;
}

int32_t accept_and_commit(const ddtree_tree_accept_args& accept, const ddtree_kv_commit_args& commit,
                          cudaStream_t stream) {
    const Parts parts = parts_of(commit);
    const int warps = max(ceil_div(accept.N, kWarp), parts.count);
    return launch_status(LAUNCH_DEPENDENT(accept_commit_kernel, dim3(commit.Y, commit.B), dim3(warps * kWarp),
                                          Tree::bytes(accept.N), stream, accept, commit, slots_of(commit), parts));
}

int32_t call_hook(ddtree_hook hook, const void* context, void* stream) {
    return hook == nullptr ? DDTREE_OK : hook(context, stream);
}

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_greedy_step(const ddtree_greedy_step_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream) {
    using namespace ddtree;
    if (!readable(args) || !present(args->build, args->attn, args->accept, args->commit)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    int32_t status = ddtree_tree_build(args->build, workspace, workspace_bytes, stream);
    if (status == DDTREE_OK) {
        status = call_hook(args->before_attn, args->before_attn_context, stream);
    }
    if (status == DDTREE_OK) {
        status = ddtree_verify_attn(args->attn, workspace, workspace_bytes, stream);
    }
    if (status == DDTREE_OK) {
        status = call_hook(args->after_attn, args->after_attn_context, stream);
    }
    if (status == DDTREE_OK && fusible(*args->accept, *args->commit)) {
        return accept_and_commit(*args->accept, *args->commit, static_cast<cudaStream_t>(stream));
    }
    if (status == DDTREE_OK) {
        status = ddtree_tree_accept(args->accept, workspace, workspace_bytes, stream);
    }
    if (status == DDTREE_OK) {
        status = ddtree_kv_commit(args->commit, workspace, workspace_bytes, stream);
    }
    return status;
}
