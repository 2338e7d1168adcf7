// The nodes of tree_build that tie with the last one, where there are too many to list.
//
// Let t be the score of the last node. The candidates above t are nodes already (fewer than `budget`); the
// others are the first of those that score exactly t, in the order of rank tuples. All of those descend from
// *tops*: children that score t of a node that scores more. Below a top the children that score t are the
// ranks r with t + logprob == t, ways(d) of them at depth d whatever the parent, as all of them score t. So
// the ties below a node of depth d are a full tree, its size depends on d alone,
//     size(d) = 1 + ways(d+1) * size(d+1),
// and in the order of tuples it is counted through in preorder: the k-th tie is found by division.
// The tops of one parent follow everything below its children that score more, so parents with tops are in
// the order of tuples except that descendants come before ancestors.
#pragma once

#include "tree_order.cuh"

namespace ddtree {

constexpr int kManyTies = 2 * kMaxNodes;  // sizes are capped here

// Shared memory of the ties, lying over that of the order, whose `number` is still needed: `sorted` and `last`
// take 2 * budget + 1 of the places for candidates.
struct TieMemory {
    uint32_t* family;  // [budget]: packed parent candidate and rank of its first top
    int32_t* weight;   // [budget]: ties that descend from it
    int32_t* start;    // [budget + 1]: ties before it, in order
    Small* sorted;     // [budget]: families in order
    Small* last;       // [budget + 1]: the last child that scores more, of each node

    __device__ TieMemory(const OrderMemory& memory, int budget)
        : family(reinterpret_cast<uint32_t*>(memory.bin)),
          weight(memory.bin + budget),
          start(weight + budget),
          sorted(memory.placed),
          last(sorted + budget) {}
};

// How many ranks of `row` give a score for which `holds` is true? It is for the first of them.
template <class Condition>
__device__ int count_holding(const float* row, int ranks, const Condition& holds) {
    int low = 0;
    for (int high = ranks; low < high;) {
        const int middle = (low + high) / 2;
        const bool good = holds(row[middle]);
        low = good ? middle + 1 : low;
        high = good ? high : middle;
    }
    return low;
}

// Do the tops of parent candidate a come before those of b? kNone is the root.
__device__ bool tops_before(const Candidates& found, int a, int b) {
    const int depth_a = a == kNone ? 0 : depth_of(found.place[a]);
    const int depth_b = b == kNone ? 0 : depth_of(found.place[b]);
    for (int depth = depth_a; depth > depth_b; --depth) {
        a = parent_of(found.place[a]);
    }
    for (int depth = depth_b; depth > depth_a; --depth) {
        b = parent_of(found.place[b]);
    }
    return a == b ? depth_a > depth_b : a < b;
}

// Adds the ties with score `tied` behind the `count` nodes that score more, up to `budget`. `sizes` holds
// kMaxDepth + 2 words, `families` one. For the whole block.
__device__ void add_ties(const OrderMemory& order, const Team<false>& team, const Candidates& found,
                         const Rows& rows, const Nodes& nodes, int count, int budget, double tied,
                         int32_t* sizes, int32_t* families) {
    const int self = static_cast<int>(threadIdx.x);
    const int threads = static_cast<int>(blockDim.x);
    const TieMemory memory(order, budget);
    if (self < kWarp) {
        const int ways = self < rows.depths ? count_holding(rows.row(self + 1), rows.candidates,
                                                            [&](float logprob) { return tied + logprob == tied; })
                                            : 0;
        int size = 1;
        for (int depth = rows.depths; depth >= 1; --depth) {
            const int below = __shfl_sync(kFullWarp, ways, depth % kWarp);
            size = depth < rows.depths ? min(1 + below * size, kManyTies) : 1;
            if (self == 0) {
                sizes[depth] = size;
            }
        }
        if (self == 0) {
            sizes[rows.depths + 1] = 0;
            families[0] = 0;
        }
    }
    __syncthreads();

    // Parents with tops. The root is item `count`.
    for (int item = self; item <= count; item += threads) {
        const bool root = item == count;
        const int depth = root ? 0 : depth_of(found.place[item]);
        const double score = root ? 0.0 : found.score[item];
        if (depth < rows.depths) {
            const float* row = rows.row(depth + 1);
            const int above = count_holding(row, rows.candidates, [&](float lp) { return score + lp > tied; });
            const int reaching = count_holding(row, rows.candidates, [&](float lp) { return score + lp >= tied; });
            const int tops = reaching - above;
            if (tops > 0) {
                const int at = atomicAdd(families, 1);
                memory.family[at] = pack(root ? kNone : item, 0, 0) | static_cast<uint32_t>(above);
                memory.weight[at] = min(tops * sizes[depth + 1], kManyTies);
            }
        }
        if (!root) {
            const int parent = parent_of(found.place[item]);
            if (item + 1 == count || parent_of(found.place[item + 1]) != parent) {
                memory.last[parent == kNone ? 0 : order.number[parent]] = static_cast<Small>(order.number[item]);
            }
        }
    }
    __syncthreads();

    const int groups = families[0];  // at most count + 1 <= budget <= threads
    int rank = 0;
    if (self < groups) {
        const int mine = parent_of(memory.family[self]);
        for (int other = 0; other < groups; ++other) {
            rank += other != self && tops_before(found, parent_of(memory.family[other]), mine);
        }
        memory.sorted[rank] = static_cast<Small>(self);
    }
    __syncthreads();
    const int lane = self % kWarp;
    const int weight = self < groups ? memory.weight[memory.sorted[self]] : 0;
    int upto = weight;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const int other = __shfl_up_sync(kFullWarp, upto, step);
        upto += lane >= step ? other : 0;
    }
    int all;
    upto += team.before(__shfl_sync(kFullWarp, upto, kWarp - 1), 0, all);
    if (self < groups) {
        memory.start[self] = upto - weight;
    }
    __syncthreads();

    for (int tie = self; tie < budget - count; tie += threads) {
        int group = 0;
        for (int step = kMaxNodes; step > 0; step /= 2) {
            group += group + step < groups && memory.start[group + step] <= tie ? step : 0;
        }
        const uint32_t family = memory.family[memory.sorted[group]];
        const int first_rank = static_cast<int>(family & 0xffff);
        const int candidate = parent_of(family);
        int depth = candidate == kNone ? 1 : depth_of(found.place[candidate]) + 1;
        int parent = candidate == kNone ? 0 : order.number[candidate];
        int left = tie - memory.start[group];
        int size = sizes[depth];
        int turn = left / size;
        left -= turn * size;
        int rank_here = first_rank + turn;
        int elder = turn > 0 ? count + 1 + tie - left - size : rank_here > 0 ? memory.last[parent] : kNone;
        while (left > 0) {  // it is below this one
            parent = count + 1 + tie - left;
            depth += 1;
            size = sizes[depth];
            left -= 1;
            turn = left / size;
            left -= turn * size;
            rank_here = turn;
            elder = turn > 0 ? count + 1 + tie - left - size : kNone;
        }
        const int number = count + 1 + tie;
        nodes.place[number] = pack(parent, rank_here, depth);
        if (elder == kNone) {
            nodes.child[parent] = static_cast<Small>(number);
        } else {
            nodes.sibling[elder] = static_cast<Small>(number);
        }
    }
    __syncthreads();
}

}  // namespace ddtree
