// kv_commit: moves the accepted tail rows to the front of the tail, in place, in every layer.
//
// One block per request and layer. Accepted slots rise strictly from 0, so slot i takes its row from slot
// accept_index[i] >= i, and a target may be the source of another move. So all threads load, then all store:
// each has one column of 16 bytes and every fourth move. Only rows that move are read and written.
#include "checks.cuh"

namespace ddtree {
namespace {

constexpr int kMaxColumns = 128;  // of a row, that a block moves at once
constexpr int kTurns = 4;         // threads that share a column's moves
constexpr int kMovesEach = kMaxDepth / kTurns;

struct Move {
    int64_t from;  // bytes from the start of a layer
    int64_t to;
};

// Byte offset of a slot of one request, within a layer. `shift` is log2 of the slots of a page, -1 if it is
// no power of two.
__device__ __forceinline__ int64_t slot_offset(const ddtree_kv_commit_args& args, int shift, int request,
                                               int32_t slot) {
    const int32_t page = shift >= 0 ? slot >> shift : slot / args.S;
    const int64_t entry = static_cast<int64_t>(request) * args.M + page;
    return args.block_table[entry] * args.page_bytes + (slot - page * args.S) * args.slot_bytes;
}

// For the whole block.
template <class T>
__device__ __forceinline__ void move_columns(uint8_t* layer, int64_t columns, const Move* moves, int count) {
    for (int64_t first = 0; first < columns; first += blockDim.x) {
        const int64_t column = first + threadIdx.x;
        uint8_t* base = layer + column * sizeof(T);
        T part[kMovesEach] = {};
#pragma unroll
        for (int i = 0; i < kMovesEach; ++i) {
            const int move = threadIdx.y + i * kTurns;
            if (move < count && column < columns) {
                part[i] = *reinterpret_cast<const T*>(base + moves[move].from);
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kMovesEach; ++i) {
            const int move = threadIdx.y + i * kTurns;
            if (move < count && column < columns) {
                *reinterpret_cast<T*>(base + moves[move].to) = part[i];
            }
        }
    }
}

__global__ void __launch_bounds__(kMaxColumns* kTurns)
    kv_commit_kernel(const ddtree_kv_commit_args args, const int shift) {
    SHARED(Move, moves, kMaxDepth);
    SHARED(int32_t, staying, 1);
    const int request = blockIdx.y;
    const int layer = blockIdx.x;
    const int lane = threadIdx.x;
    grid_dependency_wait();
    grid_dependency_release();

    const int32_t prefix = args.prefix_len[request];
    const int32_t accepted = args.accept_len[request];
    uint8_t* base = args.layer_base[layer];
    if (threadIdx.y == 0 && lane < kWarp) {
        // Lane i looks after path entry i + 1; the root stays where it is.
        const int32_t* path = args.accept_index + static_cast<int64_t>(request) * args.A;
        const int32_t source = lane + 1 < args.A ? path[lane + 1] : kNone;
        const bool on_path = lane < accepted && lane + 1 < args.A;
        // The path rises strictly from 0, so entries that stay come before those that move.
        const int stay = __popc(__ballot_sync(kFullWarp, on_path && source == lane + 1));
        if (on_path && source != lane + 1) {
            moves[lane - stay] = {slot_offset(args, shift, request, prefix + source),
                                  slot_offset(args, shift, request, prefix + lane + 1)};
        }
        if (lane == 0) {
            staying[0] = stay;
            if (layer == 0) {
                args.new_len[request] = prefix + accepted + 1;
            }
        }
    }
    __syncthreads();
    const int count = min(accepted, args.A - 1) - staying[0];
    if (count <= 0) {
        return;  // the whole block
    }

    const uint64_t alignment =
        reinterpret_cast<uint64_t>(base) | args.page_bytes | args.slot_bytes | args.row_bytes;
    if (alignment % sizeof(uint4) == 0) {
        move_columns<uint4>(base, args.row_bytes / sizeof(uint4), moves, count);
    } else {
        move_columns<uint8_t>(base, args.row_bytes, moves, count);
    }
}

// A thread per 16 bytes of a row, in whole warps.
int columns_for(int64_t row_bytes) {
    const int64_t warps = (row_bytes + 16 * kWarp - 1) / (16 * kWarp);
    const int64_t most = kMaxColumns / kWarp;
    return kWarp * static_cast<int>(warps < 1 ? 1 : warps < most ? warps : most);
}

int shift_of(int32_t slots) {
    int shift = 0;
    while (1 << shift < slots) {
        ++shift;
    }
    return 1 << shift == slots ? shift : -1;
}

bool valid(const ddtree_kv_commit_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->A, 1, kMaxDepth + 1) && args->M >= 1 &&
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
    const dim3 blocks(args->Y, args->B);
    const dim3 threads(columns_for(args->row_bytes), kTurns);
    return launch_status(LAUNCH_DEPENDENT(kv_commit_kernel, blocks, threads, 0, static_cast<cudaStream_t>(stream),
                                          *args, shift_of(args->S)));
}
