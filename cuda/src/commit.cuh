// Moving accepted rows to the front of the tail, in place, by warps that need nothing of each other.
//
// Accepted slots rise strictly from 0, so slot i takes its row from slot accept_index[i] >= i, and a target may
// be the source of an earlier move. A lane has columns of 16 bytes to itself, and in each column loads the
// pieces of many moves before it stores them, earlier moves first: no piece is overwritten before it is read.
#pragma once

#include "checks.cuh"

namespace ddtree {

constexpr int kMovesAtOnce = 16;
constexpr int kMostParts = 64;

struct Move {
    int64_t from;  // bytes from the start of a layer
    int64_t to;
};

// Slots of a page: a shift where they are a power of two.
struct PageSlots {
    int32_t count;
    int32_t shift;  // -1 where there is none

    __device__ __forceinline__ int32_t page_of(int32_t slot) const { return shift >= 0 ? slot >> shift : slot / count; }
};

// By a whole warp: lane i looks after path entry i + 1 (`source`); the root stays where it is. Entries that stay
// come before those that move. Returns how many move. `page_entry` reads the request's block table.
template <class PageEntry>
__device__ __forceinline__ int find_moves(const ddtree_kv_commit_args& args, const PageSlots& slots, int32_t prefix,
                                          int32_t source, int32_t accepted, Move* moves, PageEntry page_entry) {
    const int lane = threadIdx.x % kWarp;
    const bool on_path = lane < accepted && lane + 1 < args.A;
    const int stay = __popc(__ballot_sync(kFullWarp, on_path && source == lane + 1));
    if (on_path && source != lane + 1) {
        const auto offset = [&](int32_t slot) {
            const int32_t page = slots.page_of(slot);
            return page_entry(page) * args.page_bytes + (slot - page * slots.count) * args.slot_bytes;
        };
        moves[lane - stay] = {offset(prefix + source), offset(prefix + lane + 1)};
    }
    return max(min(accepted, args.A - 1), 0) - stay;
}

// By a whole warp, for columns `begin` to `end` of one layer.
template <class T>
__device__ __forceinline__ void move_columns(uint8_t* layer, int64_t begin, int64_t end, const Move* moves, int count) {
    for (int64_t column = begin + threadIdx.x % kWarp; column < end; column += kWarp) {
        uint8_t* base = layer + column * sizeof(T);
        for (int first = 0; first < count; first += kMovesAtOnce) {
            T piece[kMovesAtOnce];
#pragma unroll
            for (int i = 0; i < kMovesAtOnce; ++i) {
                if (first + i < count) {
                    piece[i] = *reinterpret_cast<const T*>(base + moves[first + i].from);
                }
            }
#pragma unroll
            for (int i = 0; i < kMovesAtOnce; ++i) {
                if (first + i < count) {
                    *reinterpret_cast<T*>(base + moves[first + i].to) = piece[i];
                }
            }
        }
    }
}

// By a whole warp: its part of the rows of one layer, out of `parts` parts.
__device__ __forceinline__ void move_part(const ddtree_kv_commit_args& args, uint8_t* layer, int part, int parts,
                                          const Move* moves, int count) {
    const uint64_t alignment =
        reinterpret_cast<uint64_t>(layer) | args.page_bytes | args.slot_bytes | args.row_bytes;
    const bool wide = alignment % sizeof(uint4) == 0;
    const int64_t columns = wide ? args.row_bytes / sizeof(uint4) : args.row_bytes;
    const int64_t share = (columns + parts - 1) / parts;
    const int64_t begin = part * share;
    const int64_t end = begin + share < columns ? begin + share : columns;
    if (wide) {
        move_columns<uint4>(layer, begin, end, moves, count);
    } else {
        move_columns<uint8_t>(layer, begin, end, moves, count);
    }
}

// A lane per 16 bytes of a row, as far as that goes.
inline int parts_for(int64_t row_bytes) {
    const int64_t warps = (row_bytes + 16 * kWarp - 1) / (16 * kWarp);
    return static_cast<int>(warps < 1 ? 1 : warps < kMostParts ? warps : kMostParts);
}

inline PageSlots slots_of(const ddtree_kv_commit_args& args) {
    int shift = 0;
    while (1 << shift < args.S) {
        ++shift;
    }
    return {args.S, 1 << shift == args.S ? shift : -1};
}

inline bool valid(const ddtree_kv_commit_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->A, 1, kMaxDepth + 1) && args->M >= 1 &&
           within(args->S, 1, kMaxPageSlots) && args->Y >= 1 && args->page_bytes >= 0 &&
           args->slot_bytes >= 0 && args->row_bytes >= 0 &&
           launchable(static_cast<int64_t>(args->B > 0 ? args->B : 1) * args->Y) &&
           present(args->layer_base, args->block_table, args->prefix_len, args->accept_index,
                   args->accept_len, args->new_len);
}

}  // namespace ddtree
