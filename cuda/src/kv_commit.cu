// kv_commit: moves the accepted tail rows to the front of the tail, in place, in every layer.
//
// One block per request and layer, a warp per part of a row. Each warp works out the moves for itself and waits
// for no other. To have one load less to wait for, it guesses where the tail's entries of the block table stand:
// prefix_len is read before the kernel in front has ended, and again after that. Only what was read after
// that counts; where the two differ, the entries are read again.
#include "commit.cuh"

namespace ddtree {
namespace {

struct Scratch {  // of one warp
    Move moves[kMaxDepth];
    int32_t pages[kWarp];  // entries of the block table from the guessed page on
};

__global__ void __launch_bounds__(kMostParts* kWarp)
    kv_commit_kernel(const ddtree_kv_commit_args args, const PageSlots slots, const Parts parts) {
    DYN_SMEM(Scratch, scratch);
    const int request = blockIdx.y;
    const int layer = blockIdx.x;
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int32_t* path = args.accept_index + static_cast<int64_t>(request) * args.A;
    const int32_t* entries = args.block_table + static_cast<int64_t>(request) * args.M;
    const volatile int32_t* prefix_len = args.prefix_len + request;  // so that it is read twice
    Scratch& mine = scratch[warp];
    const int32_t guess = *prefix_len;
    const int32_t first_page = slots.page_of(max(guess, 0));
    grid_dependency_wait();
    grid_dependency_release();

    mine.pages[lane] = lane < args.M - static_cast<int64_t>(first_page) ? entries[first_page + lane] : 0;
    const int32_t prefix = *prefix_len;
    const int32_t accepted = args.accept_len[request];
    const int32_t source = lane + 1 < args.A ? path[lane + 1] : kNone;
    uint8_t* base = args.layer_base[layer];
    __syncwarp();
    const int count = find_moves(args, slots, prefix, source, accepted, mine.moves, [&](int32_t page) {
        const int32_t at = page - first_page;
        return static_cast<int64_t>(prefix == guess && at < kWarp ? mine.pages[at] : entries[page]);
    });
    __syncwarp();
    move_part(args, base, parts, warp, mine.moves, count);
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
                                          parts.count * static_cast<int>(sizeof(Scratch)),
                                          static_cast<cudaStream_t>(stream), *args, slots_of(*args), parts));
}
