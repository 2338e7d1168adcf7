// What tree_build does where more candidates reach the threshold than there is room for. Kept out of the way
// of the usual case: it is rare, and its code would cost registers and instruction cache.
#pragma once

#include "frontier.cuh"
#include "tree_ties.cuh"

namespace ddtree {

constexpr int kMostRaises = 6;  // of the threshold, before the best-first search takes over

// Where the shared memory of a block has what, in bytes from its start.
struct SearchLayout {
    int capacity;  // candidates
    int nodes;
    int found;
    int order;
};

// A score that at least `wanted` of the `count` candidates reach: the worst of the bin with the wanted-th
// best, after a second look at that bin. For the whole block; all threads get the result, and the memory is
// clear again.
__device__ double score_reached(const OrderMemory& memory, const Team<false>& team, const Candidates& found,
                                int count, int wanted, double lowest) {
    double best = found.score[0];
    double score = kNoScore;
    for (int look = 0; look < 2; ++look) {
        sort_into_bins(memory, team, found, count, best, lowest);
        for (int item = threadIdx.x; item < count; item += blockDim.x) {
            const int bin = memory.bin_of(item);
            // At the second look all that the first one has ruled out share the last bin.
            if (memory.bin[bin] < wanted && wanted <= memory.bin[bin + 1] && found.score[item] >= score) {
                atomicMax(memory.worst, __double_as_longlong(fabs(found.score[item])));  // costs are >= 0
                atomicMax(memory.chosen, bin);
            }
        }
        __syncthreads();
        score = -__longlong_as_double(*memory.worst);
        const double top = best - *memory.chosen / bins_per_unit(best, lowest);
        __syncthreads();
        memory.clear();
        __syncthreads();
        if (!(top > score)) {
            break;  // in all threads: all of the bin tie
        }
        best = top;
        lowest = score;
    }
    return score;
}

// The next score above one that is <= 0.
__device__ __forceinline__ double above(double score) {
    const long long cost = __double_as_longlong(fabs(score));
    return cost > 0 ? -__longlong_as_double(cost - 1) : __longlong_as_double(1);
}

// The best-first search. For the whole block; all threads get the node count.
__device__ int search_best_first(unsigned char* memory, const Rows& rows, const Nodes& nodes, int size, int budget,
                                 int32_t* grown) {
    const Search search(memory, size);
    __syncthreads();  // the memory is free
    if (threadIdx.x < kWarp) {
        const int taken = grow_tree(search, rows, size, budget);
        if (threadIdx.x == 0) {
            grown[0] = taken;
        }
    }
    __syncthreads();
    const int live = grown[0];
    for (int node = threadIdx.x; node < live; node += blockDim.x) {
        nodes.place[node] =
            pack(search.node_parent[node], node > 0 ? search.node_rank[node] : 0, search.node_depth[node]);
        nodes.child[node] = search.first_child[node];
        nodes.sibling[node] = search.next_sibling[node];
    }
    __syncthreads();
    return live;
}

// Grows and numbers the tree after the search at `threshold` has overflowed. For the whole block; all threads
// get the node count. `words` are kMaxDepth + 3 words, `warp_total` is a team's.
__device__ __noinline__ int build_hard(SearchLayout layout, Rows rows, int size, Threshold threshold,
                                       int32_t* warp_total, int32_t* words) {
    DYN_SMEM(unsigned char, memory);
    const int budget = size - 1;
    const Nodes nodes(memory + layout.nodes, size);
    const Candidates found(memory + layout.found, layout.capacity, true);
    const OrderMemory order(memory + layout.order, layout.capacity);
    const Team<false> team = {warp_total};
    int count = kOverflow;
    bool ties = false;
    for (int i = 0; i < kMostRaises && count == kOverflow; ++i) {
        // The candidates that were found give a better threshold, unless too many tie with it.
        const double better = score_reached(order, team, found, layout.capacity, budget, threshold.lowest);
        ties = !(better > threshold.least);
        threshold = {better, better};
        count = grow_levels(team, found, rows, ties ? above(better) : better, layout.capacity);
    }
    if (count == kOverflow) {
        return search_best_first(memory + layout.found, rows, nodes, size, budget, words);
    }
    found.clear(count, kPaddedCandidates);
    __syncthreads();
    number_nodes(order, team, found, nodes, count, budget, threshold.lowest);
    if (ties && count < budget) {
        add_ties(order, team, found, rows, nodes, count, budget, threshold.least, words + 1, words);
        count = budget;
    }
    return 1 + min(count, budget);
}

}  // namespace ddtree
