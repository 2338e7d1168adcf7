// How tree_build grows chains: what they share, and the candidates that begin them.
#pragma once

#include "tree_candidates.cuh"

namespace ddtree {

// Shared memory of the search.
struct ChainMemory {
    static constexpr int kCounts = 6;

    const double* trunk;  // [L]: scores of rank 0 all the way down
    Small* start;         // [capacity + 1]: candidates that chains begin with
    int32_t* counts;      // [3, 2]: candidates and chains of this round, of the next one, of the one before

    __device__ void begin(int chain, int candidate, int capacity) const {
        if (chain <= capacity) {
            start[chain] = static_cast<Small>(candidate);
        }
    }

    // Before the barrier that precedes grow_chains.
    __device__ void clear() const {
        if (threadIdx.x < kCounts) {
            counts[threadIdx.x] = 0;
        }
    }
};

// What all work on: `found` grows by the candidates of `rows` that score `least` or more.
struct Growth {
    ChainMemory memory;
    Candidates found;
    Rows rows;
    double least;
    int capacity;  // candidates that there is room for
};

// The candidates that a thread adds: children of one parent, but not that of rank 0.
struct Branches {
    int parent;
    int depth;  // of the children
    int place;  // where they go
    int chain;  // where the chains that they begin go
    int count;

    __device__ __forceinline__ void put(const Growth& growth, int rank, double score) const {
        const int at = place + rank - 1;
        if (at < growth.capacity) {
            growth.found.put(at, score, parent, rank, depth);
            growth.found.younger[at] = static_cast<Small>(rank < count ? at + 1 : kNone);
            growth.memory.begin(chain + rank - 1, at, growth.capacity);
        }
    }
};

// Puts those beyond the heads: a warp does one thread's after the other's.
__device__ __forceinline__ void put_many(const Growth& growth, unsigned lanes, const Branches& branches,
                                         double score) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (unsigned left = lanes; left != 0; left &= left - 1) {
        const int owner = __ffs(static_cast<int>(left)) - 1;
        const double its_score = __shfl_sync(kFullWarp, score, owner);
        const auto of_owner = [&](int value) { return __shfl_sync(kFullWarp, value, owner); };
        const Branches its = {of_owner(branches.parent), of_owner(branches.depth), of_owner(branches.place),
                              of_owner(branches.chain), of_owner(branches.count)};
        const float* row = growth.rows.row(its.depth);
#pragma unroll 1
        for (int rank = kHeads + lane; rank <= its.count; rank += kWarp) {
            its.put(growth, rank, its_score + row[rank]);
        }
    }
}

// Counts and places the children but that of rank 0, at `depth`, of each lane's candidate. Returns the lanes that have
// some beyond the heads. For a warp.
__device__ __forceinline__ unsigned count_branches(const Growth& growth, const double* heads, int depth, Brood& brood) {
    const unsigned large = count_heads<1>(heads, growth.least, brood);
    if (__builtin_expect(large != 0, 0)) {
        count_more(growth.rows, growth.least, large, depth, brood);
    }
    return large;
}

// Puts them.
__device__ __forceinline__ void put_branches(const Growth& growth, const double* heads, const Brood& brood,
                                             unsigned large, const Branches& branches, double score) {
    put_heads<1>(heads, brood, [&](int rank, double its_score) { branches.put(growth, rank, its_score); });
    if (__builtin_expect(large != 0, 0)) {
        put_many(growth, large, branches, score);
    }
}

}  // namespace ddtree
