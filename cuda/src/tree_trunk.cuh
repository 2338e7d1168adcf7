// The first round of tree_build's chains: the trunk, which is ranks 0 only, and the chains that leave it. A warp takes
// the ranks that leave at one depth, a lane each, and goes down from there; no warp waits for another.
#pragma once

#include "tree_branches.cuh"

namespace ddtree {

constexpr int kStepsAtOnce = 4;  // of a chain, between two looks at whether it goes on

// Adds the children but that of rank 0 (`heir`, if there is one) of the candidates `from`, one of a lane or kNone. They
// are at `depth`. `before` candidates came before the round. For a warp.
__device__ __forceinline__ void branch_off(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                           double least, int from, int heir, int depth, int before, int capacity) {
    const int lane = threadIdx.x % kWarp;
    const double* heads = rows.heads_of(depth);
    Brood brood;
    brood.score = from != kNone ? found.score[from] : kNoScore;
    const unsigned large = count_branches(rows, heads, least, depth, brood);
    const int base = lane < 2 ? atomicAdd(&memory.counts[lane], brood.all) : 0;
    const Branches branches = {from, depth, before + __shfl_sync(kFullWarp, base, 0) + brood.place,
                               __shfl_sync(kFullWarp, base, 1) + brood.place, brood.heads + brood.more};
    if (branches.count > 0 && heir < capacity) {
        found.younger[heir] = static_cast<Small>(branches.place);
    }
    put_branches(memory, found, rows, heads, brood, large, branches, brood.score, capacity);
}

// The chains that leave the trunk at `depth` with 32 ranks from `first` on, one of a lane, down to kSteps candidates.
template <int kSteps>
struct Sides {
    int depth;
    int first;
    double score[kSteps];
    unsigned alive[kSteps] = {};  // lanes whose candidate of a step reaches the threshold: the first so many
    int count = 0;                // candidates

    // For a warp.
    __device__ __forceinline__ Sides(const ChainMemory& memory, const Rows& rows, double least, int its_depth,
                                     int first_rank)
        : depth(its_depth), first(first_rank) {
        const int rank = first + static_cast<int>(threadIdx.x % kWarp);
        const double* down = rows.heads_of(depth);
        double here = depth > 1 ? memory.trunk[depth - 2] : 0.0;
        here = rank < rows.candidates ? here + rows.at(depth, rank) : kNoScore;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            if (i % kStepsAtOnce == 1 && alive[i - 1] == 0) {
                break;
            }
            score[i] = here;
            alive[i] = __ballot_sync(kFullWarp, !falls_short(here, least));
            count += __popc(alive[i]);
            here += down[(i + 1) * kHeadStride];
        }
    }

    // Chains that are longer than this.
    __device__ int longer(const Rows& rows) const {
        return depth + kSteps <= rows.depths ? __popc(alive[kSteps - 1]) : 0;
    }

    // Puts all candidates from place `at` on, step by step. Returns to lane i where those of step i begin, and to
    // the lanes from kSteps on where they end. For a warp: scores step by step, the rest by a lane for each.
    __device__ __forceinline__ int put(const Candidates& found, int at, int capacity) const {
        const int lane = threadIdx.x % kWarp;
        int mine = at;
        int end = at;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            mine = lane >= i ? end : mine;
            if (i % kStepsAtOnce == 1 && alive[i] == 0) {
                break;
            }
            const int here = __popc(alive[i]);
            if (lane < here && end + lane < capacity) {
                found.score[end + lane] = score[i];
            }
            end += here;
        }
        mine = lane >= kSteps ? end : mine;
        const bool later = lane > 0 && lane < kSteps;  // a step but the first
#pragma unroll 1
        for (; at < end; at += kWarp) {
            const int self = at + lane;
            const bool begins = later && mine >= at && mine < at + kWarp;
            const unsigned begun = __reduce_or_sync(kFullWarp, begins ? 1u << (mine - at) : 0u);
            const unsigned over = __ballot_sync(kFullWarp, later && mine < at);
            const int i = __popc(over) + __popc(begun & ((2u << lane) - 1));  // the candidate's step
            const int column = self - __shfl_sync(kFullWarp, mine, i);
            const int above = __shfl_sync(kFullWarp, mine, max(i - 1, 0)) + column;
            const int leaves = __shfl_sync(kFullWarp, mine, 1);
            if (self < min(end, capacity)) {
                const int parent = i > 0 ? above : depth > 1 ? depth - 2 : kNone;
                found.place[self] = pack(parent, i > 0 ? 0 : first + column, depth + i);
                found.younger[self] = static_cast<Small>(i == 0 && self + 1 < leaves ? self + 1 : kNone);
            }
        }
        return mine;
    }
};

// Adds the chains of `Sides`, and what begins chains below them. `elder` is the sibling before the first of them,
// `trunk` how many candidates have ranks 0 only. Returns the sibling of the last of these ranks, kNone if not all
// leave. For a warp.
template <int kSteps>
__device__ __forceinline__ int leave_trunk(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                           double least, int depth, int first, int elder, int trunk, int capacity) {
    const int lane = threadIdx.x % kWarp;
    const Sides<kSteps> sides(memory, rows, least, depth, first);
    if (sides.count == 0) {
        return kNone;
    }
    const int longer = sides.longer(rows);
    const int base = lane < 2 ? atomicAdd(&memory.counts[lane], lane == 0 ? sides.count : longer) : 0;
    const int at = trunk + __shfl_sync(kFullWarp, base, 0);
    const int chain = __shfl_sync(kFullWarp, base, 1);
    if (lane == 0 && elder < capacity) {
        found.younger[elder] = static_cast<Small>(at);
    }
    const int mine = sides.put(found, at, capacity);
    const int longest = __shfl_sync(kFullWarp, mine, kSteps - 1) + lane;
    if (lane < longer && longest < capacity) {
        memory.begin(chain + lane, longest, capacity);  // it goes on in the next round
    }
    __syncwarp();
    // Lane i asks whether step i has children of other ranks than 0: if any has, then the first rank's.
    const bool asks = lane + 1 < kSteps && mine < min(at + sides.count, capacity);
    const double best = asks ? found.score[mine] : kNoScore;
    const double child = best + rows.heads_of(depth)[(lane % kSteps + 1) * kHeadStride + 1];
    unsigned branching = __ballot_sync(kFullWarp, !falls_short(child, least));
#pragma unroll 1
    for (; branching != 0; branching &= branching - 1) {
        const int i = __ffs(static_cast<int>(branching)) - 1;
        const int from = __shfl_sync(kFullWarp, mine, i) + lane;
        const int heir = __shfl_sync(kFullWarp, mine, i + 1) + lane;
        const bool branches = heir < __shfl_sync(kFullWarp, mine, i + 2) && from < capacity;
        branch_off(memory, found, rows, least, branches ? from : kNone, heir, depth + i + 1, trunk, capacity);
    }
    return sides.alive[0] == kFullWarp ? at + kWarp - 1 : kNone;
}

// The first round, for the whole block: the candidates with at most one rank that is not 0, and what begins chains. The
// trunk comes first. Returns how many candidates that is.
template <int kSteps>
__device__ __forceinline__ int grow_trunk(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                          double least, int capacity) {
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int warps = blockDim.x / kWarp;
    const double score = memory.trunk[lane];
    const int trunk = __popc(__ballot_sync(kFullWarp, lane < rows.depths && !falls_short(score, least)));
    if (warp == warps - 1 && lane < trunk) {
        found.put(lane, score, lane - 1, 0, lane + 1);
    }
#pragma unroll 1
    for (int depth = warp + 1; depth <= trunk; depth += warps) {
        int elder = depth - 1;
        if (lane == 0) {
            found.younger[elder] = kNone;
        }
#pragma unroll 1
        for (int first = 1; first < rows.candidates && elder != kNone; first += kWarp) {
            elder = leave_trunk<kSteps>(memory, found, rows, least, depth, first, elder, trunk, capacity);
            __syncwarp();
        }
    }
    __syncthreads();
    return trunk + memory.counts[0];
}

}  // namespace ddtree
