// Moving accepted rows to the front of the tail, in place, by warps that need nothing of each other.
//
// Accepted slots rise strictly from 0, so slot i takes its row from slot accept_index[i] >= i, and a target may
// be the source of an earlier move. A lane has columns of 16 bytes to itself (of one byte where rows are not aligned),
// and in each column loads the pieces of several moves before it stores them, earlier moves first: no piece is
// overwritten before it is read.
#pragma once

#include "checks.cuh"

namespace ddtree {

constexpr int kMovesAtOnce = kMaxDepth / 2;
constexpr int kFill = 4;        // moves are made in multiples of it
constexpr int kMostParts = 16;  // of a row; a block has a warp for each

// Moves in shared memory, earlier ones first, in bytes from the start of a layer.
struct alignas(16) Moves {
    int64_t from[kMaxDepth];
    int64_t to[kMaxDepth];
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
                                          Moves& moves) {
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
    if (is_move) {
        moves.from[lane - stay] = offset(from_entry, from_page, from);
        moves.to[lane - stay] = offset(to_entry, to_page, to);
    }
    return max(min(accepted, args.A - 1), 0) - stay;
}

// Moves `first` up to `last` of one piece of a row, filled up to kMoves with the last one. `base` is the piece's place
// in a layer's first row. All offsets, then all pieces are under way at once, which takes a known number of them: under
// conditions, each offset would be waited for before the next is asked for. Nobody reads the rows before the next step,
// so they may leave the L2 first.
template <class T, int kMoves>
__device__ __forceinline__ void move_together(uint8_t* base, const Moves& moves, int first, int last) {
    const auto number = [&](int i) { return i > kMoves - kFill ? min(first + i, last) : first + i; };
    T piece[kMoves];
#pragma unroll
    for (int i = 0; i < kMoves; ++i) {
        piece[i] = __ldcg(reinterpret_cast<const T*>(base + moves.from[number(i)]));
    }
#pragma unroll
    for (int i = 0; i < kMoves; ++i) {
        __stcs(reinterpret_cast<T*>(base + moves.to[number(i)]), piece[i]);
    }
}

// Moves from number `first` on of one piece of a row, up to kMoves at once.
template <class T, int kMoves>
__device__ __forceinline__ void move_piece(uint8_t* base, const Moves& moves, int first, int count) {
#pragma unroll 1
    for (; count - first > kMoves - kFill; first += kMoves) {
        move_together<T, kMoves>(base, moves, first, count - 1);
    }
    if constexpr (kMoves > kFill) {
        move_piece<T, kMoves - kFill>(base, moves, first, count);
    }
}

// By a whole warp: bytes `begin` to `end` of every row that moves.
template <class T, int kMoves>
__device__ __forceinline__ void move_bytes(uint8_t* layer, int64_t begin, int64_t end, const Moves& moves, int count) {
    const int lane = threadIdx.x % kWarp;
    for (int64_t at = begin + lane * sizeof(T); at < end; at += kWarp * sizeof(T)) {
        move_piece<T, kMoves>(layer + at, moves, 0, count);
    }
}

// Bytes of a row that each of a block's warps moves: a multiple of 16.
struct Parts {
    int64_t share;
    int32_t count;
};

// By a whole warp: part number `part` of the rows of one layer.
__device__ __forceinline__ void move_part(const ddtree_kv_commit_args& args, uint8_t* layer, const Parts& parts,
                                          int part, const Moves& moves, int count) {
    const int64_t begin = part * parts.share;
    const int64_t end = begin + parts.share < args.row_bytes ? begin + parts.share : args.row_bytes;
    const uint64_t alignment =
        reinterpret_cast<uint64_t>(layer) | args.page_bytes | args.slot_bytes | args.row_bytes;
    if (__builtin_expect(alignment % sizeof(uint4) == 0, 1)) {
        move_bytes<uint4, kMovesAtOnce>(layer, begin, end, moves, count);
    } else {
        move_bytes<uint8_t, kFill>(layer, begin, end, moves, count);
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
