// The best-first search of tree_build, by one warp in shared memory: exact for every input, and slow. It
// stands behind the parallel search, for whatever that gives up on.
//
// A candidate is a rank tuple (r1..rd); it is kept as (parent node, last rank), so its tuple is read by
// walking up. Candidates are ordered by (score descending, tuple ascending, shorter prefix first).
//
// Every candidate but (0) has one generator: the tuple with its last rank one lower, or, if the last rank
// is 0, the tuple without it. Log-probs are <= 0 and sorted, and rounding is monotone, so from generator
// to candidate the float64 score cannot rise, while the tuple strictly grows: the generator always comes
// first. Hence the best candidate not yet taken is always in the frontier, ties and rounding included, and
// taking the best of the frontier `budget` times gives the tree in exactly the contract's order.
#pragma once

#include "tree_rows.cuh"

namespace ddtree {

// Nodes taken so far, and the frontier: slots of candidates whose generator has been taken.
struct Search {
    double* node_score;
    double* slot_score;
    Small* node_parent;
    Small* node_rank;
    Small* node_depth;
    Small* first_child;
    Small* next_sibling;
    Small* slot_parent;
    Small* slot_rank;
    Small* slot_elder;  // sibling of one rank less, kNone for rank 0

    // Slots come in whole warps, so that every lane owns at least one.
    __host__ __device__ static int slots(int nodes) { return ceil_div(nodes, kWarp) * kWarp; }

    __host__ __device__ static int bytes(int nodes) {
        return static_cast<int>(nodes * (sizeof(double) + 5 * sizeof(Small)) +
                                slots(nodes) * (sizeof(double) + 3 * sizeof(Small)));
    }

    __device__ Search(unsigned char* memory, int nodes) {
        const int slot_count = slots(nodes);
        node_score = reinterpret_cast<double*>(memory);
        slot_score = node_score + nodes;
        node_parent = reinterpret_cast<Small*>(slot_score + slot_count);
        node_rank = node_parent + nodes;
        node_depth = node_rank + nodes;
        first_child = node_depth + nodes;
        next_sibling = first_child + nodes;
        slot_parent = next_sibling + nodes;
        slot_rank = slot_parent + slot_count;
        slot_elder = slot_rank + slot_count;
    }
};

// Is the rank tuple of slot a smaller than that of slot b?
__device__ __forceinline__ bool tuple_before(const Search& s, int a, int b) {
    int parent_a = s.slot_parent[a], rank_a = s.slot_rank[a], depth_a = s.node_depth[parent_a];
    int parent_b = s.slot_parent[b], rank_b = s.slot_rank[b], depth_b = s.node_depth[parent_b];
    int order = depth_a - depth_b;  // of equal prefixes the shorter comes first
    for (; depth_a > depth_b; --depth_a) {
        rank_a = s.node_rank[parent_a];
        parent_a = s.node_parent[parent_a];
    }
    for (; depth_b > depth_a; --depth_b) {
        rank_b = s.node_rank[parent_b];
        parent_b = s.node_parent[parent_b];
    }
    // Both walk up in step; the difference nearest to the root decides, so later ones overwrite.
    while (true) {
        if (rank_a != rank_b) {
            order = rank_a - rank_b;
        }
        if (parent_a == parent_b) {
            return order < 0;
        }
        rank_a = s.node_rank[parent_a];
        rank_b = s.node_rank[parent_b];
        parent_a = s.node_parent[parent_a];
        parent_b = s.node_parent[parent_b];
    }
}

// Does the candidate of slot a come before that of slot b? Empty slots come last.
__device__ __forceinline__ bool slot_before(const Search& s, int a, int b) {
    const double score_a = s.slot_score[a];
    const double score_b = s.slot_score[b];
    if (score_a != score_b) {
        return score_a > score_b;
    }
    return score_a != kNoScore && tuple_before(s, a, b);
}

// Puts candidate (parent, rank) into a slot; the slot becomes empty if there is no such candidate.
__device__ __forceinline__ void offer(const Search& s, const Rows& rows, int slot, int parent,
                                      double parent_score, int depth, int rank, int elder) {
    const bool exists = depth <= rows.depths && rank < rows.candidates;
    s.slot_score[slot] = exists ? parent_score + rows.at(depth, rank) : kNoScore;
    s.slot_parent[slot] = static_cast<Small>(parent);
    s.slot_rank[slot] = static_cast<Small>(rank);
    s.slot_elder[slot] = static_cast<Small>(elder);
}

// Takes up to `budget` nodes into `s`, links included, and returns the node count. Called by warp 0.
//
// Slot i belongs to lane i % 32, and each lane remembers the best of its own slots. Taking a node reuses
// its slot for the next sibling and opens the slot of the node's own number for its first child, so only
// the two owners have anything to look up again.
__device__ inline int grow_tree(const Search& s, const Rows& rows, int nodes, int budget) {
    const int lane = threadIdx.x;
    for (int slot = lane; slot < Search::slots(nodes); slot += kWarp) {
        s.slot_score[slot] = kNoScore;
    }
    for (int node = lane; node < nodes; node += kWarp) {
        s.first_child[node] = kNone;
        s.next_sibling[node] = kNone;
    }
    if (lane == 0) {  // slot 0 is its own
        s.node_score[0] = 0.0;
        s.node_parent[0] = kNone;
        s.node_rank[0] = kNone;
        s.node_depth[0] = 0;
        offer(s, rows, 0, 0, 0.0, 1, 0, kNone);
    }
    __syncwarp();

    int lane_best = lane;
    int count = 1;
    for (; count <= budget; ++count) {
        // Distinct candidates never compare equal, so all lanes arrive at the same slot.
        int best = lane_best;
        for (int step = kWarp / 2; step > 0; step /= 2) {
            const int other = __shfl_xor_sync(kFullWarp, best, step);
            best = slot_before(s, other, best) ? other : best;
        }
        const double score = s.slot_score[best];
        if (score == kNoScore) {
            break;  // in every lane: the frontier is empty
        }
        const int parent = s.slot_parent[best];
        const int rank = s.slot_rank[best];
        const int elder = s.slot_elder[best];
        const int depth = s.node_depth[parent] + 1;
        __syncwarp();  // all have read the slot before its owner reuses it

        const bool owns_best = best % kWarp == lane;
        const bool owns_new = count % kWarp == lane;
        if (owns_best) {
            s.node_score[count] = score;
            s.node_parent[count] = static_cast<Small>(parent);
            s.node_rank[count] = static_cast<Small>(rank);
            s.node_depth[count] = static_cast<Small>(depth);
            // Siblings are taken in rank order, which is node order, so links only ever append.
            Small* link = elder == kNone ? &s.first_child[parent] : &s.next_sibling[elder];
            *link = static_cast<Small>(count);
            offer(s, rows, best, parent, s.node_score[parent], depth, rank + 1, count);
        }
        if (owns_new) {
            offer(s, rows, count, count, score, depth + 1, 0, kNone);
        }
        __syncwarp();  // the new node and both slots are seen by all

        if (owns_best) {
            lane_best = lane;
            for (int slot = lane + kWarp; slot <= count; slot += kWarp) {
                lane_best = slot_before(s, slot, lane_best) ? slot : lane_best;
            }
        } else if (owns_new && slot_before(s, count, lane_best)) {
            lane_best = count;
        }
    }
    return count;
}

}  // namespace ddtree
