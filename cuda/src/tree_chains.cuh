// The candidates of tree_build that reach a threshold, chain by chain.
//
// Most ranks of a good path are 0. So a candidate is taken with those that add ranks 0 to it, its chain: 4 to 16
// threads sum up one depth each, and count the children of their own that do not go on with rank 0. Those begin the
// chains of the next round, and the siblings of the trunk, which is ranks 0 only, those of the first one. There are as
// many rounds as a candidate has ranks that are not 0 (and some more for chains that are longer, whose last begins a
// chain again). Candidates are stored as they come.
#pragma once

#include "tree_candidates.cuh"

namespace ddtree {

constexpr int kLongest = 16;  // threads that share a chain

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

// The candidates that a thread adds: children of one parent, but not that of rank 0.
struct Branches {
    int parent;
    int depth;  // of the children
    int place;  // where they go
    int chain;  // where the chains that they begin go
    int count;

    __device__ void put(const ChainMemory& memory, const Candidates& found, int rank, double score,
                        int capacity) const {
        const int at = place + rank - 1;
        if (at < capacity) {
            found.put(at, score, parent, rank, depth);
            found.younger[at] = static_cast<Small>(rank < count ? at + 1 : kNone);
            memory.begin(chain + rank - 1, at, capacity);
        }
    }
};

// Puts those beyond the heads: a warp does one thread's after the other's.
__device__ __forceinline__ void put_many(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                         unsigned lanes, const Branches& branches, double score, int capacity) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (unsigned left = lanes; left != 0; left &= left - 1) {
        const int owner = __ffs(static_cast<int>(left)) - 1;
        const double its_score = __shfl_sync(kFullWarp, score, owner);
        const auto of_owner = [&](int value) { return __shfl_sync(kFullWarp, value, owner); };
        const Branches its = {of_owner(branches.parent), of_owner(branches.depth), of_owner(branches.place),
                              of_owner(branches.chain), of_owner(branches.count)};
        const float* row = rows.row(its.depth);
#pragma unroll 1
        for (int rank = kHeads + lane; rank <= its.count; rank += kWarp) {
            its.put(memory, found, rank, its_score + row[rank], capacity);
        }
    }
}

// Where a chain begins: a candidate, its depth and score.
struct Start {
    int from;
    int depth;
    double score;
};

// A warp's share of a round: a chain for each `chunk` threads, where it `exists`. There were `count` candidates and
// `end` chains before the round, which adds to `counts`. Returns how many candidates there are by now.
__device__ __forceinline__ int grow_warp(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                         double least, int chunk, const Start& start, bool exists, int end, int count,
                                         int32_t* counts, int capacity) {
    const int lane = threadIdx.x % kWarp;
    const int seat = lane & (chunk - 1);
    const unsigned before = low_bits(lane);
    const int steps = min(seat, rows.depths - start.depth);
    const double* down = rows.heads_of(start.depth + 1);
    double score = start.score;
#pragma unroll
    for (int i = 0; i < kLongest - 1; ++i) {
        if (i + 1 == 4 || i + 1 == 8) {  // after as many as a shorter chunk takes
            if (i + 1 == chunk) {
                break;
            }
        }
        score += i < steps ? down[i * kHeadStride] : 0.0;
    }
    const int depth = start.depth + seat;
    const bool reaches = exists && steps == seat && score >= least;
    const bool last = seat == chunk - 1;
    const bool goes_on = reaches && depth < rows.depths;
    const unsigned fresh = __ballot_sync(kFullWarp, reaches && seat > 0);
    const unsigned handed = __ballot_sync(kFullWarp, goes_on && last);

    const double* heads = rows.heads_of(min(depth + 1, rows.depths));
    Brood brood;
    brood.score = goes_on && !last ? score : kNoScore;
    const unsigned large = count_heads<1>(heads, least, brood);
    if (__builtin_expect(large != 0, 0)) {
        count_more(rows, least, large, depth + 1, brood);
    }

    const int nodes = __popc(fresh);
    int base = 0;
    if (lane < 2) {
        base = atomicAdd(&counts[lane], brood.all + __popc(lane == 0 ? fresh : handed));
    }
    const int node_base = count + __shfl_sync(kFullWarp, base, 0);
    const int chain_base = end + __shfl_sync(kFullWarp, base, 1);
    const int upto = node_base + __popc(fresh & before);  // where the next of rank 0 goes
    const Branches branches = {seat == 0 ? start.from : upto, depth + 1, node_base + nodes + brood.place,
                               chain_base + brood.place, brood.heads + brood.more};
    if (fresh >> lane & 1 && upto < capacity) {
        found.put(upto, score, seat == 1 ? start.from : upto - 1, 0, depth);
        if (handed >> lane & 1) {
            memory.begin(chain_base + brood.all + __popc(handed & before), upto, capacity);
        }
    }
    const int heir = upto + (seat > 0);  // my child of rank 0
    if (!last && fresh >> (lane + 1) & 1 && heir < capacity) {
        found.younger[heir] = static_cast<Small>(branches.count > 0 ? branches.place : kNone);
    }
    put_heads<1>(heads, brood, [&](int rank, double its_score) {
        branches.put(memory, found, rank, its_score, capacity);
    });
    if (__builtin_expect(large != 0, 0)) {
        put_many(memory, found, rows, large, branches, score, capacity);
    }
    return node_base + nodes + brood.all;
}

// The trunk and what leaves it, as every warp works it out: lane d has the trunk's candidate at depth d + 1 and its
// siblings, which begin the first chains.
struct Trunk {
    int count;    // candidates with ranks 0 only; these come first
    int chains;
    int place;    // of the lane's first chain
    int sides;    // chains of the lane

    // For whole warps.
    __device__ Trunk(const ChainMemory& memory, const Rows& rows, double least) {
        const int lane = threadIdx.x % kWarp;
        const bool reaches = lane < rows.depths && !falls_short(memory.trunk[lane], least);
        count = __popc(__ballot_sync(kFullWarp, reaches));
        Brood brood;
        brood.score = !reaches ? kNoScore : lane > 0 ? memory.trunk[lane - 1] : 0.0;
        double child[kHeads];  // all heads at once: some depth tends to have many
        look_at_heads<1, kHeads>(rows.heads_of(min(lane + 1, rows.depths)), least, brood, child);
        place_heads<kHeads - 1>(brood);
        const unsigned large = __ballot_sync(kFullWarp, brood.heads == kHeads - 1);
        if (__builtin_expect(large != 0, 0)) {
            count_more(rows, least, large, lane + 1, brood);
        }
        chains = brood.all;
        place = brood.place;
        sides = brood.heads + brood.more;
    }

    // By one warp.
    __device__ void put(const ChainMemory& memory, const Candidates& found) const {
        const int lane = threadIdx.x % kWarp;
        if (lane < count) {
            found.put(lane, memory.trunk[lane], lane - 1, 0, lane + 1);
            found.younger[lane] = static_cast<Small>(sides > 0 ? count + place : kNone);
        }
    }

    // Where the chain `first` + lane >> `shift` begins, for whole warps. The first of its threads puts that candidate.
    __device__ Start start(const ChainMemory& memory, const Candidates& found, const Rows& rows, int first, int shift,
                           int capacity) const {
        const int lane = threadIdx.x % kWarp;
        const int part = lane >> shift;
        const int chain = first + part;
        int above = 0;  // depth of the last candidate of the trunk
#pragma unroll 2
        for (int i = 0; i < kWarp >> shift; ++i) {
            const int upto = __popc(__ballot_sync(kFullWarp, place <= first + i));
            above = part == i ? upto - 1 : above;
        }
        const int rank = chain - __shfl_sync(kFullWarp, place, above) + 1;
        const int siblings = __shfl_sync(kFullWarp, sides, above);
        const int from = count + chain;
        double score = kNoScore;
        if (chain < chains) {
            score = (above > 0 ? memory.trunk[above - 1] : 0.0) + rows.at(above + 1, rank);
            if (lane == part << shift && from < capacity) {
                found.put(from, score, above - 1, rank, above + 1);
                found.younger[from] = static_cast<Small>(rank < siblings ? from + 1 : kNone);
            }
        }
        return {from, above + 1, score};
    }
};

// Threads per chain where there are so many, as a power of two: few chains tend to be long, many to be short.
__device__ __forceinline__ int chunk_for(int chains) {
    const int threads = static_cast<int>(blockDim.x);
    return chains * 16 <= threads ? 4 : chains * 8 <= 2 * threads ? 3 : 2;
}

// All candidates that score `least` or more. If there are more than `capacity` the answer is kOverflow, and
// `capacity` of them are there. The first is the best. For the whole block, which sees the candidates. `memory`
// is clear.
__device__ __forceinline__ int grow_chains(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                           double least, int capacity) {
    const int self = static_cast<int>(threadIdx.x);
    const Trunk trunk(memory, rows, least);
    if (self / kWarp == static_cast<int>(blockDim.x) / kWarp - 1) {
        trunk.put(memory, found);
    }
    if (trunk.chains == 0) {
        __syncthreads();
    }
    int count = trunk.count + trunk.chains;
    int turn = 0;
    bool leaving = true;  // the chains of the first round leave the trunk, as many as there is room for
#pragma unroll 1
    for (int begin = 0, end = min(trunk.chains, capacity - trunk.count); begin < end && (leaving || count <= capacity);
         leaving = false) {
        int32_t* counts = memory.counts + turn;
        turn = turn + 2 < ChainMemory::kCounts ? turn + 2 : 0;
        if (self < 2) {
            memory.counts[turn + self] = 0;
        }
        const int shift = chunk_for(end - begin);
        const int warp = self / kWarp * kWarp >> shift;
        int reached = count;
#pragma unroll 1
        for (int first = begin; first + warp < end && (leaving || reached <= capacity);
             first += blockDim.x >> shift) {
            const int chain = first + (self >> shift);
            Start start;
            if (leaving) {
                start = trunk.start(memory, found, rows, first + warp, shift, capacity);
            } else {
                start.from = memory.start[min(chain, end - 1)];
                start.depth = depth_of(found.place[start.from]);
                start.score = found.score[start.from];
            }
            reached = grow_warp(memory, found, rows, least, 1 << shift, start, chain < end, end, count, counts,
                                capacity);
        }
        __syncthreads();
        begin = end;
        count += counts[0];
        end += counts[1];
    }
    return count <= capacity ? count : kOverflow;
}

}  // namespace ddtree
