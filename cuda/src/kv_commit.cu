// kv_commit: moves the accepted tail rows to the front of the tail, in place, in every layer.
//
// One warp per request, layer and part of a row: it works out the moves for itself and waits for no other.
#include "commit.cuh"

namespace ddtree {
namespace {

__global__ void __launch_bounds__(kWarp)
    kv_commit_kernel(const ddtree_kv_commit_args args, const PageSlots slots) {
    SHARED(Move, moves, kMaxDepth);
    const int request = blockIdx.y;
    const int layer = blockIdx.x;
    const int lane = threadIdx.x;
    grid_dependency_wait();
    grid_dependency_release();

    const int32_t* path = args.accept_index + static_cast<int64_t>(request) * args.A;
    const int32_t* entries = args.block_table + static_cast<int64_t>(request) * args.M;
    const int32_t prefix = args.prefix_len[request];
    const int32_t accepted = args.accept_len[request];
    const int32_t source = lane + 1 < args.A ? path[lane + 1] : kNone;
    uint8_t* base = args.layer_base[layer];
    const int count = find_moves(args, slots, prefix, source, accepted, moves,
                                 [&](int32_t page) { return static_cast<int64_t>(entries[page]); });
    __syncwarp();
    move_part(args, base, blockIdx.z, gridDim.z, moves, count);
    if (lane == 0 && layer == 0 && blockIdx.z == 0) {
        args.new_len[request] = prefix + accepted + 1;
    }
}

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_kv_commit(const ddtree_kv_commit_args* args, void*, uint64_t, void* stream) {
    using namespace ddtree;
    if (!valid(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    const dim3 blocks(args->Y, args->B, parts_for(args->row_bytes));
    return launch_status(LAUNCH_DEPENDENT(kv_commit_kernel, blocks, dim3(kWarp), 0, static_cast<cudaStream_t>(stream),
                                          *args, slots_of(*args)));
}
