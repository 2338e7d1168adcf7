// The first round of tree_build's chains: the trunk, which is ranks 0 only, and the chains that leave it. A warp takes
// the ranks that leave at one depth, a lane each, and goes down from there; no warp waits for another.
#pragma once

#include "tree_branches.cuh"

namespace ddtree {

constexpr int kStepsAtOnce = 4;  // of a chain, between two looks at whether it goes on

// Adds the children but that of rank 0 of the candidates `from`, one of a lane or kNone; `heir` would be that of rank 0.
// They are at `depth`. `before` candidates came before the round. For a warp.
__device__ __forceinline__ void branch_off(const Growth& growth, int from, int heir, int depth, int before) {
    const int lane = threadIdx.x % kWarp;
    const double* heads = growth.rows.heads_of(depth);
    Brood brood;
    brood.score = from != kNone ? growth.found.score[from] : kNoScore;
    const unsigned large = count_branches(growth, heads, depth, brood);
    const int base = lane < 2 ? atomicAdd(&growth.memory.counts[lane], brood.all) : 0;
    const Branches branches = {from, depth, before + __shfl_sync(kFullWarp, base, 0) + brood.place,
                               __shfl_sync(kFullWarp, base, 1) + brood.place, brood.heads + brood.more};
    if (branches.count > 0 && heir < growth.capacity) {
        growth.found.younger[heir] = static_cast<Small>(branches.place);
    }
    put_branches(growth, heads, brood, large, branches, brood.score);
}

// The chains that leave the trunk at `depth` with 32 ranks from `first` on, one of a lane, down to kSteps candidates.
// The first lane's is the longest.
template <int kSteps>
struct Sides {
    int depth;
    int rank;
    double score[kSteps];
    int steps;  // of the lane's chain, candidates that reach the threshold

    // For a warp.
    __device__ __forceinline__ Sides(const Growth& growth, int its_depth, int first)
        : depth(its_depth), rank(first + static_cast<int>(threadIdx.x % kWarp)) {
        const Rows& rows = growth.rows;
        const double* down = rows.heads_of(depth);
        double here = depth > 1 ? growth.memory.trunk[depth - 2] : 0.0;
        here = rank < rows.candidates ? here + rows.at(depth, rank) : kNoScore;
        int seen = 0;
        int shorter = 0;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            if (i % kStepsAtOnce == 1 && !__any_sync(kFullWarp, shorter == 0)) {
                break;
            }
            score[i] = here;
            seen = i + 1;
            shorter += falls_short(here, growth.least);
            here += down[(i + 1) * kHeadStride];
        }
        steps = seen - shorter;
    }

    // Puts the lane's chain from place `begin` on; the sibling after its first candidate is at `next`. For a warp.
    __device__ __forceinline__ void put(const Growth& growth, int begin, int next) const {
        const Candidates& found = growth.found;
        const int room = min(steps, growth.capacity - begin);
        if (room > 0) {
            found.put(begin, score[0], depth > 1 ? depth - 2 : kNone, rank, depth);
            found.younger[begin] = static_cast<Small>(next);
        }
        const uint32_t second = pack(begin, 0, depth + 1);
#pragma unroll
        for (int i = 1; i < kSteps; ++i) {
            if (i % kStepsAtOnce == 1 && !__any_sync(kFullWarp, steps > i)) {
                break;
            }
            if (i < room) {
                found.score[begin + i] = score[i];
                found.place[begin + i] = second + (i - 1) * pack(1, 0, 1);
            }
        }
    }
};

// Adds the chains of `Sides`, and what begins chains below them. `elder` is the candidate of the rank before the first
// of them, `trunk` how many candidates have ranks 0 only. Returns the candidate of the last of these ranks, kNone if not
// all leave. For a warp.
template <int kSteps>
__device__ __forceinline__ int leave_trunk(const Growth& growth, int depth, int first, int elder, int trunk) {
    const ChainMemory& memory = growth.memory;
    const Candidates& found = growth.found;
    const int capacity = growth.capacity;
    const int lane = threadIdx.x % kWarp;
    const Sides<kSteps> sides(growth, depth, first);
    const unsigned alive = __ballot_sync(kFullWarp, sides.steps > 0);
    if (alive == 0) {
        return kNone;
    }
    const int begin = trunk + (sides.steps > 0 ? atomicAdd(&memory.counts[0], sides.steps) : 0);
    const int below = __shfl_down_sync(kFullWarp, begin, 1);
    if (lane == 0 && elder < capacity) {
        found.younger[elder] = static_cast<Small>(begin);
    }
    sides.put(growth, begin, alive >> lane > 1 ? below : kNone);
    if (depth + kSteps <= growth.rows.depths && sides.steps == kSteps) {  // it goes on in the next round
        const int chain = atomicAdd(&memory.counts[1], 1);
        if (begin + kSteps <= capacity) {
            memory.begin(chain, begin + kSteps - 1, capacity);
        }
    }
    __syncwarp();
    // Lane i asks whether step i has children of other ranks than 0: if any has, then the first rank's.
    const int at = __shfl_sync(kFullWarp, begin, 0) + lane;
    const int longest = __shfl_sync(kFullWarp, sides.steps, 0);
    const bool asks = lane + 1 < kSteps && lane < longest && at < capacity;
    const double best = asks ? found.score[at] : kNoScore;
    const double child = best + growth.rows.heads_of(depth)[(lane % kSteps + 1) * kHeadStride + 1];
    unsigned branching = __ballot_sync(kFullWarp, !falls_short(child, growth.least));
#pragma unroll 1
    for (; branching != 0; branching &= branching - 1) {
        const int i = __ffs(static_cast<int>(branching)) - 1;
        const bool branches = i + 1 < sides.steps && begin + i < capacity;
        branch_off(growth, branches ? begin + i : kNone, begin + i + 1, depth + i + 1, trunk);
    }
    const int last = __shfl_sync(kFullWarp, begin, kWarp - 1);
    return alive == kFullWarp ? last : kNone;
}

// The first round, for the whole block: the candidates with at most one rank that is not 0, and what begins chains. The
// trunk comes first. Returns how many candidates that is.
template <int kSteps>
__device__ __forceinline__ int grow_trunk(const Growth& growth) {
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int warps = blockDim.x / kWarp;
    const double score = growth.memory.trunk[lane];
    const bool reaches = lane < growth.rows.depths && !falls_short(score, growth.least);
    const int trunk = __popc(__ballot_sync(kFullWarp, reaches));
    if (warp == warps - 1 && lane < trunk) {
        growth.found.put(lane, score, lane - 1, 0, lane + 1);
    }
#pragma unroll 1
    for (int depth = warp + 1; depth <= trunk; depth += warps) {
        int elder = depth - 1;
#pragma unroll 1
        for (int first = 1; first < growth.rows.candidates && elder != kNone; first += kWarp) {
            elder = leave_trunk<kSteps>(growth, depth, first, elder, trunk);
            __syncwarp();
        }
    }
    __syncthreads();
    return trunk + growth.memory.counts[0];
}

}  // namespace ddtree
