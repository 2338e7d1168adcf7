// What a block of tree_build has in its shared memory, and how many blocks share the outputs.
#pragma once

#include "tree_hard.cuh"
#include "tree_outputs.cuh"
#include "tree_threshold.cuh"

namespace ddtree {

// A block, by the budget.
constexpr int kSmallBudget = 128;  // up to here pairs are counted, and one warp takes the levels
constexpr int kMediumBudget = 512;
constexpr int kMediumThreads = 512;
constexpr int kLargeThreads = 1024;

constexpr int kMostShares = 16;             // blocks that share the outputs of a large tree
constexpr int kSharedBlocks = 128;          // as long as there are no more than these: a large GPU runs them at once
constexpr int kSharedRowBytes = 64 * 1024;  // larger rows stay in global memory
constexpr int kOwnTileBytes = 12 * 1024;    // a smaller mask has memory of its own, cleared early

// Arrays of a block whose size does not depend on the call.
struct Fixed {
    double trunk[kWarp];
    float cost[kWarp];
    int32_t excess[kWarp];
    int32_t warp_total[2 * kWarp];
    int32_t words[kMaxDepth + 4];
};

// Dynamic shared memory of a block, in bytes from its start: Fixed, nodes, mask tile, then what the search needs.
// A large tile lies over the search's memory, which is free by then.
struct Layout {
    SearchLayout search;
    int threads;
    int shares;      // blocks of a request
    int share;       // node slots that each of them writes
    int kept;        // ranks that can enter a tree
    int tile;
    int tile_rows;
    int count;
    int heads;
    int rows;
    int bytes;
    bool own_tile;
};

inline int aligned(int bytes) {
    return ceil_div(bytes, 16) * 16;
}

inline int shares_of(int batch) {
    int shares = kMostShares;
    while (shares > 1 && shares * batch > kSharedBlocks) {
        shares /= 2;
    }
    return shares;
}

// For rows in shared memory or in global memory, and a mask that is made as a whole or in parts.
inline Layout layout_of(const ddtree_tree_build_args& args, bool rows_shared, bool whole_tile) {
    Layout l = {};
    const int budget = args.budget;
    l.threads = budget <= kMediumBudget ? kMediumThreads : kLargeThreads;
    l.shares = budget > kMediumBudget ? shares_of(args.B) : 1;
    l.share = ceil_div(args.N, l.shares);
    l.kept = min(max(budget, 1), args.K);
    const int capacity = min(max(rows_shared ? 4 * budget : 5 * budget / 2, 256), kItems * l.threads);
    const int row_bytes = args.W * static_cast<int>(sizeof(uint32_t));
    l.search.nodes = aligned(sizeof(Fixed));
    l.tile = l.search.nodes + aligned(Nodes::bytes(args.N));
    l.own_tile = whole_tile && args.W > kFewWords && l.share * row_bytes <= kOwnTileBytes;
    l.search.capacity = capacity;
    l.search.found = l.tile + (l.own_tile ? aligned(l.share * row_bytes) : 0);
    l.search.order = l.search.found + aligned(max(Candidates::bytes(capacity), Search::bytes(args.N)));
    l.count = l.search.order + aligned(OrderMemory::bytes(capacity, l.threads));
    l.heads = l.count + aligned((budget <= kSmallBudget ? PairMemory::words(args.L) : CountMemory::words(args.L)) *
                                static_cast<int>(sizeof(int32_t)));
    l.rows = l.heads + aligned((args.L + kSpareDepths) * kHeadStride * static_cast<int>(sizeof(double)));
    l.bytes = l.rows + (rows_shared ? args.L * l.kept * static_cast<int>(sizeof(float)) : 0);
    l.tile_rows = l.share;
    if (!l.own_tile) {
        l.bytes = max(l.bytes, l.tile + aligned((whole_tile ? l.share : kMaxDepth) * row_bytes));
        l.tile_rows = min((l.bytes - l.tile) / 16 * 16 / row_bytes, l.share);
    }
    return l;
}

}  // namespace ddtree
