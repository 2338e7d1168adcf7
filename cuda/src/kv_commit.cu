// kv_commit: moves the accepted tail rows to the front of the tail, in place, in every layer.
//
// One block per request and layer. A thread owns columns of the rows: no other thread reads or writes
// them, so only the order within a thread matters. Accepted slots rise strictly from 0, so slot i takes
// its row from slot accept_index[i] >= i; with moves in rising i, a slot is overwritten only after every
// move that reads it. No staging, no barrier between moves, and only rows that move are written.
#include "checks.cuh"

namespace ddtree {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxPath = kMaxDepth + 1;
constexpr int kMovesInFlight = 8;  // loads issued before the first store

// Byte offset of a slot of one request, within a layer.
__device__ int64_t slot_offset(const ddtree_kv_commit_args& args, int request, int32_t slot) {
    const int64_t entry = static_cast<int64_t>(request) * args.M + slot / args.S;
    return args.block_table[entry] * args.page_bytes + slot % args.S * args.slot_bytes;
}

// Moves the columns of type T that this thread owns. A batch loads before it stores, which only reads
// sources earlier than one by one would; later batches read slots past those that it stores to.
template <class T>
__device__ void move_columns(uint8_t* layer, int64_t columns, const int64_t* from, const int64_t* to,
                             int moves) {
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) {
        uint8_t* base = layer + column * sizeof(T);
        for (int first = 0; first < moves; first += kMovesInFlight) {
            T row[kMovesInFlight] = {};
#pragma unroll
            for (int i = 0; i < kMovesInFlight; ++i) {
                if (first + i < moves) {
                    row[i] = *reinterpret_cast<const T*>(base + from[first + i]);
                }
            }
#pragma unroll
            for (int i = 0; i < kMovesInFlight; ++i) {
                if (first + i < moves && from[first + i] != to[first + i]) {
                    *reinterpret_cast<T*>(base + to[first + i]) = row[i];
                }
            }
        }
    }
}

__global__ void __launch_bounds__(kThreads) kv_commit_kernel(const ddtree_kv_commit_args args) {
    SHARED(int64_t, from, kMaxDepth);
    SHARED(int64_t, to, kMaxDepth);
    const int request = blockIdx.x / args.Y;
    const int layer = blockIdx.x % args.Y;
    const int32_t prefix = args.prefix_len[request];
    const int32_t accepted = args.accept_len[request];
    if (layer == 0 && threadIdx.x == 0) {
        args.new_len[request] = prefix + accepted + 1;
    }
    if (accepted <= 0) {
        return;  // the whole block: inactive, or the root alone, which stays where it is
    }

    // The root stays where it is, so move i is that of path entry i + 1.
    const int32_t* path = args.accept_index + static_cast<int64_t>(request) * args.A;
    const int moves = min(accepted, args.A - 1);
    for (int i = threadIdx.x; i < moves; i += kThreads) {
        from[i] = slot_offset(args, request, prefix + path[i + 1]);
        to[i] = slot_offset(args, request, prefix + i + 1);
    }
    __syncthreads();

    uint8_t* base = args.layer_base[layer];
    const uint64_t alignment =
        reinterpret_cast<uint64_t>(base) | args.page_bytes | args.slot_bytes | args.row_bytes;
    if (alignment % sizeof(uint4) == 0) {
        move_columns<uint4>(base, args.row_bytes / sizeof(uint4), from, to, moves);
    } else {
        move_columns<uint8_t>(base, args.row_bytes, from, to, moves);
    }
}

bool valid(const ddtree_kv_commit_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->A, 1, kMaxPath) && args->M >= 1 &&
           within(args->S, 1, kMaxPageSlots) && args->Y >= 1 && args->page_bytes >= 0 &&
           args->slot_bytes >= 0 && args->row_bytes >= 0 &&
           launchable(static_cast<int64_t>(args->B > 0 ? args->B : 1) * args->Y) &&
           present(args->layer_base, args->block_table, args->prefix_len, args->accept_index,
                   args->accept_len, args->new_len);
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
    const unsigned blocks = static_cast<unsigned>(args->B) * args->Y;
    return launch_status(LAUNCH(kv_commit_kernel, dim3(blocks), dim3(kThreads), 0,
                                static_cast<cudaStream_t>(stream), *args));
}
