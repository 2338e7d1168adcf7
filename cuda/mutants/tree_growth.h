// How a tree grows: the nodes so far, the order of candidates, the best of them taken. And what can go wrong.
#pragma once

#include <cfloat>
#include <cmath>
#include <limits>

#include "mutant.h"

namespace mutants {
namespace {

constexpr double kNoCandidate = -std::numeric_limits<double>::infinity();

// One request's candidates [L, K].
struct Rows {
    const float* logprob;
    int depths;
    int candidates;

    __device__ float at(int depth, int rank) const { return logprob[(depth - 1) * candidates + rank]; }
};

// The nodes so far, in shared memory. There is room for one more than N, so that a mutant may take it.
struct Nodes {
    double* score;
    int16_t* path;  // [nodes, kMaxDepth + 1] ranks from depth 1
    int16_t* parent;
    int16_t* rank;
    int16_t* depth;
    int16_t* child;
    int16_t* sibling;
    int16_t* last_child;
    int16_t* next_rank;  // of the best child not yet taken

    static size_t bytes(int nodes) {
        return (nodes + 1) * (sizeof(double) + sizeof(int16_t) * (kMaxDepth + 1 + 7));
    }

    __device__ Nodes(unsigned char* memory, int nodes) {
        const int room = nodes + 1;
        score = reinterpret_cast<double*>(memory);
        path = reinterpret_cast<int16_t*>(score + room);
        parent = path + room * (kMaxDepth + 1);
        rank = parent + room;
        depth = rank + room;
        child = depth + room;
        sibling = child + room;
        last_child = sibling + room;
        next_rank = last_child + room;
    }

    __device__ int16_t* path_of(int node) const { return path + node * (kMaxDepth + 1); }
};

// Children that a builder may think are enough for the i-th node of a level, if sums were exact.
__device__ int cap_by_rank(const Nodes& nodes, int node, int budget) {
    int place = 0;
    for (int other = 0; other < node; ++other) {
        place += nodes.depth[other] == nodes.depth[node];
    }
    return budget / (place + 1) > 0 ? budget / (place + 1) : 1;
}

// Score of the candidate of `node`, kNoCandidate where it has none.
__device__ double candidate_score(const Nodes& nodes, const Rows& rows, int node, int budget, Switch mutant) {
    const int depth = nodes.depth[node] + 1, rank = nodes.next_rank[node];
    const int depths = mutant(build_depth_one_short)  ? rows.depths - 1
                       : mutant(build_depth_one_over) ? rows.depths + 1
                                                      : rows.depths;
    const int candidates = mutant(build_last_candidate_missed) ? rows.candidates - 1 : rows.candidates;
    if (depth > depths || depth > kMaxDepth || rank >= candidates) {
        return kNoCandidate;
    }
    if (mutant(build_chain_one_short) && rows.candidates == 1 && depth == rows.depths) {
        return kNoCandidate;
    }
    if (mutant(build_one_level_takes_one) && rows.depths == 1 && rank > 0) {
        return kNoCandidate;
    }
    if (mutant(build_rank_cap) && rank >= cap_by_rank(nodes, node, budget)) {
        return kNoCandidate;
    }
    const int row = depth < rows.depths ? depth : rows.depths;
    const float value = rows.at(row, rank);
    if (value == static_cast<float>(kNoCandidate)) {
        return mutant(build_no_candidate_enters) ? -1e30 : kNoCandidate;
    }
    if (mutant(build_subnormals_are_zero) && value > -FLT_MIN) {
        return nodes.score[node];
    }
    if (mutant(build_float32_sums)) {
        return static_cast<float>(nodes.score[node]) + value;
    }
    if (mutant(build_running_difference) && rank > 0) {
        return nodes.score[nodes.last_child[node]] - rows.at(row, rank - 1) + value;
    }
    if (mutant(build_probability_product)) {
        return static_cast<float>(nodes.score[node]) * expf(value);  // the root's score is 1 then
    }
    if (mutant(build_fixed_point)) {
        return nodes.score[node] + trunc(static_cast<double>(value) * 1048576.0) / 1048576.0;
    }
    return nodes.score[node] + value;
}

// Is the rank tuple of the candidate of `a` smaller than that of `b`?
__device__ bool tuple_before(const Nodes& nodes, int a, int b) {
    const int length_a = nodes.depth[a] + 1, length_b = nodes.depth[b] + 1;
    for (int i = 0; i < length_a && i < length_b; ++i) {
        const int rank_a = i + 1 < length_a ? nodes.path_of(a)[i] : nodes.next_rank[a];
        const int rank_b = i + 1 < length_b ? nodes.path_of(b)[i] : nodes.next_rank[b];
        if (rank_a != rank_b) {
            return rank_a < rank_b;
        }
    }
    return length_a < length_b;
}

__device__ bool before(const Nodes& nodes, double score_a, int a, double score_b, int b, Switch mutant) {
    if (score_a != score_b) {
        return score_a > score_b;
    }
    if (mutant(build_zero_signs) && std::signbit(score_a) != std::signbit(score_b)) {
        return std::signbit(score_b);
    }
    if (mutant(build_ties_late_rank_first)) {
        return tuple_before(nodes, b, a);
    }
    if (mutant(build_ties_oldest_parent_first)) {
        return a < b;
    }
    if (mutant(build_ties_last_rank_first)) {
        return nodes.next_rank[a] != nodes.next_rank[b] ? nodes.next_rank[a] < nodes.next_rank[b] : a < b;
    }
    if (mutant(build_ties_newest_first)) {
        return a > b;
    }
    return tuple_before(nodes, a, b);
}

// Takes the candidate of `parent` as node `node`.
__device__ void take(const Nodes& nodes, int parent, int node, double score, Switch mutant) {
    const int rank = nodes.next_rank[parent];
    const int depth = nodes.depth[parent] + 1;
    nodes.score[node] = score;
    nodes.parent[node] = static_cast<int16_t>(parent);
    nodes.rank[node] = static_cast<int16_t>(mutant(build_rank_in_seven_bits) ? rank & 0x7f : rank);
    nodes.depth[node] = static_cast<int16_t>(depth);
    nodes.child[node] = nodes.sibling[node] = nodes.last_child[node] = kNone;
    nodes.next_rank[node] = 0;
    for (int i = 0; i + 1 < depth; ++i) {
        nodes.path_of(node)[i] = nodes.path_of(parent)[i];
    }
    nodes.path_of(node)[depth - 1] = static_cast<int16_t>(rank);

    const int elder = nodes.last_child[parent];
    if (mutant(build_links_reversed)) {
        nodes.sibling[node] = nodes.child[parent];
        nodes.child[parent] = static_cast<int16_t>(node);
    } else if (elder == kNone) {
        nodes.child[parent] = static_cast<int16_t>(node);
    } else if (!(mutant(build_third_sibling_unlinked) && rank >= 2)) {
        nodes.sibling[elder] = static_cast<int16_t>(node);
    }
    if (mutant(build_child_link_is_youngest)) {
        nodes.child[parent] = static_cast<int16_t>(node);
    }
    nodes.last_child[parent] = static_cast<int16_t>(node);
    nodes.next_rank[parent] = static_cast<int16_t>(mutant(build_chain_only) ? INT16_MAX : rank + 1);
}

__device__ bool token_is_there(const Nodes& nodes, const int32_t* tokens, int candidates, int count, int parent) {
    const int32_t token = tokens[nodes.depth[parent] * candidates + nodes.next_rank[parent]];
    for (int node = 1; node < count; ++node) {
        if (tokens[(nodes.depth[node] - 1) * candidates + nodes.rank[node]] == token) {
            return true;
        }
    }
    return false;
}

// Grows the tree to `budget` nodes besides the root; returns how many nodes there are. Called by all threads.
__device__ int grow(const Nodes& nodes, const Rows& rows, const int32_t* tokens, int budget, Switch mutant) {
    SHARED(double, best_score, kThreads);
    SHARED(int, best_node, kThreads);
    SHARED(int, state, 2);  // nodes so far; 1 when there is no candidate left
    if (threadIdx.x == 0) {
        nodes.score[0] = mutant(build_probability_product) ? 1.0 : mutant(build_zero_signs) ? -0.0 : 0.0;
        nodes.parent[0] = mutant(build_root_is_its_parent) ? 0 : kNone;
        nodes.rank[0] = nodes.depth[0] = nodes.next_rank[0] = 0;
        nodes.child[0] = nodes.sibling[0] = nodes.last_child[0] = kNone;
        state[0] = 1;
        state[1] = budget == 0;
    }
    __syncthreads();
    int ties = 0;
    double last = 1.0;
    while (state[0] <= budget && state[1] == 0) {
        double score = kNoCandidate;
        int winner = kNone;
        for (int node = threadIdx.x; node < state[0]; node += kThreads) {
            const double mine = candidate_score(nodes, rows, node, budget, mutant);
            if (mine > kNoCandidate && (winner == kNone || before(nodes, mine, node, score, winner, mutant))) {
                score = mine;
                winner = node;
            }
        }
        come_late(mutant(build_barrier_missing_before_choice) && threadIdx.x < kWarp);
        best_score[threadIdx.x] = score;
        best_node[threadIdx.x] = winner;
        if (!mutant(build_barrier_missing_before_choice)) {
            __syncthreads();  // all candidates are known
        }
        if (threadIdx.x == kLast) {
            for (int i = 0; i < kLast; ++i) {
                const int other = best_node[i];
                if (other >= 0 && other < state[0] &&
                    (winner == kNone || before(nodes, best_score[i], other, score, winner, mutant))) {
                    score = best_score[i];
                    winner = other;
                }
            }
            come_late(mutant(build_barrier_missing_after_choice), 2);
            if (winner == kNone) {
                state[1] = 1;
            } else if (mutant(build_tokens_taken_once) &&
                       token_is_there(nodes, tokens, rows.candidates, state[0], winner)) {
                nodes.next_rank[winner] += 1;
            } else {
                take(nodes, winner, state[0], score, mutant);
                ties = score == last ? ties + 1 : 0;
                last = score;
                if (mutant(build_tie_buffer_of_eight) && ties >= 8) {
                    nodes.rank[state[0]] = kNone;
                }
                state[0] += 1;
            }
        }
        if (!mutant(build_barrier_missing_after_choice)) {
            __syncthreads();  // the new node is seen by all
        }
        come_late(mutant(build_barrier_missing_after_choice) && threadIdx.x != kLast);
    }
    __syncthreads();
    return state[0];
}

}  // namespace
}  // namespace mutants
