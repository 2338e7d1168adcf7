// The candidates of tree_build that reach a threshold, chain by chain.
//
// Most ranks of a good path are 0. So a candidate is taken with those that add ranks 0 to it, its chain. The first
// round takes the trunk and the chains beside it (tree_trunk.cuh). In later rounds 4 to 16 threads share a chain: they
// sum up one depth each, and count the children of their own that do not go on with rank 0. Those begin the chains of
// the next round. There are as many rounds as a candidate has ranks that are not 0 (and some more for chains that are
// longer, whose last begins a chain again). Candidates are stored as they come.
#pragma once

#include "tree_trunk.cuh"

namespace ddtree {

constexpr int kLongest = 16;  // threads that share a chain

// A warp's share of a round: a chain for each `chunk` threads, up to chain `end`. There were `count` candidates
// before the round, which adds to `counts`. Returns how many there are by now.
__device__ __forceinline__ int grow_warp(const Growth& growth, int chunk, int chain, int end, int count,
                                         int32_t* counts) {
    const Candidates& found = growth.found;
    const Rows& rows = growth.rows;
    const int lane = threadIdx.x % kWarp;
    const int seat = lane & (chunk - 1);
    const unsigned before = low_bits(lane);
    const int from = growth.memory.start[min(chain, end - 1)];
    const int begin = depth_of(found.place[from]);
    const int steps = min(seat, rows.depths - begin);
    double score = found.score[from];
    const double* down = rows.heads_of(begin + 1);
#pragma unroll
    for (int i = 0; i < kLongest - 1; ++i) {
        if (i + 1 == 4 || i + 1 == 8) {  // after as many as a shorter chunk takes
            if (i + 1 == chunk) {
                break;
            }
        }
        score += i < steps ? down[i * kHeadStride] : 0.0;
    }
    const int depth = begin + seat;
    const bool exists = chain < end && steps == seat && score >= growth.least;
    const bool last = seat == chunk - 1;
    const bool goes_on = exists && depth < rows.depths;
    const unsigned fresh = __ballot_sync(kFullWarp, exists && seat > 0);
    const unsigned handed = __ballot_sync(kFullWarp, goes_on && last);

    const double* heads = rows.heads_of(min(depth + 1, rows.depths));
    Brood brood;
    brood.score = goes_on && !last ? score : kNoScore;
    const unsigned large = count_branches(growth, heads, depth + 1, brood);

    const int nodes = __popc(fresh);
    int base = 0;
    if (lane < 2) {
        base = atomicAdd(&counts[lane], brood.all + __popc(lane == 0 ? fresh : handed));
    }
    const int node_base = count + __shfl_sync(kFullWarp, base, 0);
    const int chain_base = end + __shfl_sync(kFullWarp, base, 1);
    const int upto = node_base + __popc(fresh & before);  // where the next of rank 0 goes
    const Branches branches = {seat == 0 ? from : upto, depth + 1, node_base + nodes + brood.place,
                               chain_base + brood.place, brood.heads + brood.more};
    if (fresh >> lane & 1 && upto < growth.capacity) {
        found.put(upto, score, seat == 1 ? from : upto - 1, 0, depth);
        if (handed >> lane & 1) {
            growth.memory.begin(chain_base + brood.all + __popc(handed & before), upto, growth.capacity);
        }
    }
    const int heir = upto + (seat > 0);  // my child of rank 0
    if (!last && fresh >> (lane + 1) & 1 && heir < growth.capacity) {
        found.younger[heir] = static_cast<Small>(branches.count > 0 ? branches.place : kNone);
    }
    put_branches(growth, heads, brood, large, branches, score);
    return node_base + nodes + brood.all;
}

// Threads per chain where there are so many, as a power of two: few chains tend to be long, many to be short.
__device__ __forceinline__ int chunk_for(int chains) {
    const int threads = static_cast<int>(blockDim.x);
    return chains * 16 <= threads ? 4 : chains * 8 <= 2 * threads ? 3 : 2;
}

// All candidates of the growth; the first round goes down kSteps at a time. If there are more than it has room for the
// answer is kOverflow, and so many of them are there. The first is the best. For the whole block, which sees the
// candidates. The memory is clear.
template <int kSteps>
__device__ __forceinline__ int grow_chains(const Growth& growth) {
    const ChainMemory& memory = growth.memory;
    const int self = static_cast<int>(threadIdx.x);
    int count = grow_trunk<kSteps>(growth);
    int turn = 2;
#pragma unroll 1
    for (int begin = 0, end = memory.counts[1]; begin < end && count <= growth.capacity;) {
        int32_t* counts = memory.counts + turn;
        turn = turn + 2 < ChainMemory::kCounts ? turn + 2 : 0;
        if (self < 2) {
            memory.counts[turn + self] = 0;
        }
        const int shift = chunk_for(end - begin);
        const int warp = self / kWarp * kWarp >> shift;
        int reached = count;
#pragma unroll 1
        for (int first = begin; first + warp < end && reached <= growth.capacity; first += blockDim.x >> shift) {
            reached = grow_warp(growth, 1 << shift, first + (self >> shift), end, count, counts);
        }
        __syncthreads();
        begin = end;
        count += counts[0];
        end += counts[1];
    }
    return count <= growth.capacity ? count : kOverflow;
}

}  // namespace ddtree
