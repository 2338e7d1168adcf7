// Moving accepted rows to the front of the tail, in place, by warps that need nothing of each other.
//
// Accepted slots rise strictly from 0, so slot i takes its row from slot accept_index[i] >= i, and a target may
// be the source of an earlier move. A lane has columns of 16 bytes to itself, and in each column loads the
// pieces of many moves before it stores them, earlier moves first: no piece is overwritten before it is read.
#pragma once

#include "checks.cuh"

namespace ddtree {

constexpr int kMovesAtOnce = kMaxDepth / 2;
constexpr int kMostParts = 16;  // of a row; a block has a warp for each

struct Move {
    int64_t from;  // bytes from the start of a layer
    int64_t to;
};

// Slots of a page. The division is a product: the multiplier is too large by less than 1, which adds less than
// 2^31 / 2^shift <= 1 / count pages. So it is exact.
struct PageSlots {
    int32_t count;
    uint32_t multiplier;  // 2^shift / count, rounded up
    int32_t shift;

    __device__ __forceinline__ int32_t page_of(int32_t slot) const {
        return static_cast<int32_t>(static_cast<uint64_t>(static_cast<uint32_t>(slot)) * multiplier >> shift);
    }
};

// A request's block table where its tail stands: a lane has the entry of page `first` + lane.
struct TailPages {
    const int32_t* entries;  // of the request
    int32_t first;
    int32_t mine;

    // The lane's entry, after the kernels in front have ended. 0 where the request's table of `pages` has none.
    __device__ __forceinline__ void load(int32_t pages) {
        const int lane = threadIdx.x % kWarp;
        mine = lane < pages - first ? entries[first + lane] : 0;
    }

    // For a warp: the entry of `page`, if a lane has it.
    __device__ __forceinline__ int32_t entry_of(int32_t page) const {
        return __shfl_sync(kFullWarp, mine, (static_cast<uint32_t>(page) - first) % kWarp);
    }
    __device__ __forceinline__ bool have(int32_t page) const { return static_cast<uint32_t>(page) - first < kWarp; }
};

// By a whole warp: lane i looks after path entry i + 1 (`source`); the root stays where it is. Entries that stay
// come before those that move. Returns how many move. All wait for this: there is no branch but the rare one.
__device__ __forceinline__ int find_moves(const ddtree_kv_commit_args& args, const PageSlots& slots,
                                          const TailPages& pages, int32_t prefix, int32_t source, int32_t accepted,
                                          Move* moves) {
    const int lane = threadIdx.x % kWarp;
    const bool on_path = lane < accepted && lane + 1 < args.A;
    const bool is_move = on_path && source != lane + 1;
    const int stay = __popc(__ballot_sync(kFullWarp, on_path && !is_move));
    // All without a sign: what lanes without a move hold may be anything.
    const int32_t from = static_cast<int32_t>(static_cast<uint32_t>(prefix) + source);
    const int32_t to = static_cast<int32_t>(static_cast<uint32_t>(prefix) + lane + 1);
    const int32_t from_page = slots.page_of(from);
    const int32_t to_page = slots.page_of(to);
    int32_t from_entry = pages.entry_of(from_page);
    int32_t to_entry = pages.entry_of(to_page);
    if (__builtin_expect(is_move && !(pages.have(from_page) && pages.have(to_page)), 0)) {
        from_entry = pages.entries[from_page];
        to_entry = pages.entries[to_page];
    }
    const auto offset = [&](uint32_t entry, int32_t page, int32_t slot) {
        const uint32_t inside = static_cast<uint32_t>(slot) - static_cast<uint32_t>(page) * slots.count;
        return static_cast<int64_t>(uint64_t{entry} * static_cast<uint64_t>(args.page_bytes) +
                                    uint64_t{inside} * static_cast<uint64_t>(args.slot_bytes));
    };
    const Move move = {offset(from_entry, from_page, from), offset(to_entry, to_page, to)};
    if (is_move) {
        moves[lane - stay] = move;
    }
    return max(min(accepted, args.A - 1), 0) - stay;
}

// Up to kMovesAtOnce moves of one piece of a row. `base` is the piece's place in a layer's first row. Nobody reads
// the rows before the next step, so they may leave the L2 first.
template <class T>
__device__ __forceinline__ void move_piece(uint8_t* base, const Move* moves, int count) {
    T piece[kMovesAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kMovesAtOnce; ++i) {
        if (i < count) {
            piece[i] = *reinterpret_cast<const T*>(base + moves[i].from);
        }
    }
#pragma unroll
    for (int i = 0; i < kMovesAtOnce; ++i) {
        if (i < count) {
            __stcs(reinterpret_cast<T*>(base + moves[i].to), piece[i]);
        }
    }
}

// By a whole warp: bytes `begin` to `end` of every row that moves.
template <class T>
__device__ __forceinline__ void move_bytes(uint8_t* layer, int64_t begin, int64_t end, const Move* moves, int count) {
    const int lane = threadIdx.x % kWarp;
    for (int64_t at = begin + lane * sizeof(T); at < end; at += kWarp * sizeof(T)) {
        move_piece<T>(layer + at, moves, count);
        if (count > kMovesAtOnce) {
            move_piece<T>(layer + at, moves + kMovesAtOnce, count - kMovesAtOnce);
        }
    }
}

// Bytes of a row that each of a block's warps moves: a multiple of 16.
struct Parts {
    int64_t share;
    int32_t count;
};

// By a whole warp: part number `part` of the rows of one layer.
__device__ __forceinline__ void move_part(const ddtree_kv_commit_args& args, uint8_t* layer, const Parts& parts,
                                          int part, const Move* moves, int count) {
    const int64_t begin = part * parts.share;
    const int64_t end = begin + parts.share < args.row_bytes ? begin + parts.share : args.row_bytes;
    const uint64_t alignment =
        reinterpret_cast<uint64_t>(layer) | args.page_bytes | args.slot_bytes | args.row_bytes;
    if (alignment % sizeof(uint4) == 0) {
        move_bytes<uint4>(layer, begin, end, moves, count);
    } else {
        move_bytes<uint8_t>(layer, begin, end, moves, count);
    }
}

// A lane for every 16 bytes of a row, as far as that goes.
inline Parts parts_of(const ddtree_kv_commit_args& args) {
    const int64_t columns = (args.row_bytes + 15) / 16;
    const int64_t warps = (columns + kWarp - 1) / kWarp;
    const int64_t count = warps < 1 ? 1 : warps < kMostParts ? warps : kMostParts;
    return {(columns + count - 1) / count * 16, static_cast<int32_t>(count)};
}

inline PageSlots slots_of(const ddtree_kv_commit_args& args) {
    int shift = 31;
    while (1ull << (shift - 31) < static_cast<uint64_t>(args.S)) {
        ++shift;
    }
    return {args.S, static_cast<uint32_t>(((1ull << shift) + args.S - 1) / args.S), shift};
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
