// kv_commit: moves the accepted tail rows to the front of the tail, in place, in every layer.
//
// One block per request and layer, a warp per part of a row. Each warp works out the moves for itself and waits
// for no other. To have one load less to wait for, it guesses where the tail's entries of the block table stand:
// prefix_len is read before the kernel in front has ended, and again after that. Only what was read after that
// counts, and entries that are not where they were guessed are read in turn.
#include "commit.cuh"

namespace ddtree {
namespace {

__global__ void __launch_bounds__(kMostParts* kWarp)
    kv_commit_kernel(const ddtree_kv_commit_args args, const PageSlots slots, const Parts parts) {
    DYN_SMEM(Moves, moves_of);  // for each warp
    const int request = blockIdx.y;
    const int layer = blockIdx.x;
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int32_t* path = args.accept_index + static_cast<int64_t>(request) * args.A;
    const int32_t* entries = args.block_table + static_cast<int64_t>(request) * args.M;
    const int32_t* prefix_len = args.prefix_len + request;
    // Past the L1 and by an instruction of its own, so that the value that counts is read anew.
    TailPages pages = {entries, slots.page_of(max(__ldcg(prefix_len), 0)), 0};
    will_read(args.layer_base + layer);
    will_read(args.accept_len + request);
    if (lane + 1 < args.A) {
        will_read(path + lane + 1);
    }
    if (lane < args.M - pages.first) {
        will_read(entries + pages.first + lane);
    }
    grid_dependency_wait();
    grid_dependency_release();

    uint8_t* base = args.layer_base[layer];
    const int32_t prefix = *prefix_len;
    const int32_t accepted = args.accept_len[request];
    const int32_t source = lane + 1 < args.A ? path[lane + 1] : kNone;
    pages.load(args.M);
    Moves& moves = moves_of[warp];
    const int count = find_moves(args, slots, pages, prefix, source, accepted, moves);
    __syncwarp();
    move_part(args, base, parts, warp, moves, count);
    if (threadIdx.x == 0 && layer == 0) {
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
    const Parts parts = parts_of(*args);
    return launch_status(LAUNCH_DEPENDENT(kv_commit_kernel, dim3(args->Y, args->B), dim3(parts.count * kWarp),
                                          parts.count * static_cast<int>(sizeof(Moves)),
                                          static_cast<cudaStream_t>(stream), *args, slots_of(*args), parts));
}
