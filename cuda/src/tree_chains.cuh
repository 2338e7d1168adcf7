// The candidates of tree_build that reach a threshold, chain by chain.
//
// Most ranks of a good path are 0. So a candidate is taken with those that add ranks 0 to it, its chain. The first
// round takes the trunk, which is ranks 0 only, and the chains beside it: a warp for each depth, a lane for each rank
// there. In later rounds 4 to 16 threads share a chain: they sum up one depth each. Children that do not go on
// with rank 0 begin the chains of the next round. There are as many rounds as a candidate has ranks that are not 0
// (and some more for chains that are longer, whose last begins a chain again). Candidates are stored as they come.
#pragma once

#include "tree_candidates.cuh"

namespace ddtree {

constexpr int kLongest = 16;     // threads that share a chain
constexpr int kStepsAtOnce = 4;  // of a chain beside the trunk, between two looks at whether it goes on

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

// Adds the children but that of rank 0 (`heir`, if there is one) of the candidates `from`, one of a lane or kNone. They
// are at `depth`. `before` candidates came before the round. For a warp.
__device__ __forceinline__ void branch_off(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                           double least, int from, int heir, int depth, int before, int capacity) {
    const int lane = threadIdx.x % kWarp;
    const double* heads = rows.heads_of(depth);
    Brood brood;
    brood.score = from != kNone ? found.score[from] : kNoScore;
    const unsigned large = count_heads<1>(heads, least, brood);
    if (__builtin_expect(large != 0, 0)) {
        count_more(rows, least, large, depth, brood);
    }
    const int base = lane < 2 ? atomicAdd(&memory.counts[lane], brood.all) : 0;
    const Branches branches = {from, depth, before + __shfl_sync(kFullWarp, base, 0) + brood.place,
                               __shfl_sync(kFullWarp, base, 1) + brood.place, brood.heads + brood.more};
    if (branches.count > 0 && heir < capacity) {
        found.younger[heir] = static_cast<Small>(branches.place);
    }
    put_heads<1>(heads, brood, [&](int rank, double score) {
        branches.put(memory, found, rank, score, capacity);
    });
    if (__builtin_expect(large != 0, 0)) {
        put_many(memory, found, rows, large, branches, brood.score, capacity);
    }
}

// Adds the chains beside the trunk that leave it at `depth` with 32 ranks from `first` on, one of a lane, down to kSteps
// candidates each. `elder` is the sibling before them, `trunk` how many candidates have ranks 0 only. Returns the
// sibling of the last of these ranks, kNone if not all leave. For a warp.
template <int kSteps>
__device__ __forceinline__ int leave_trunk(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                           double least, int depth, int first, int elder, int trunk, int capacity) {
    const int lane = threadIdx.x % kWarp;
    const int rank = first + lane;
    const double* down = rows.heads_of(depth);
    double score[kSteps];
    unsigned alive[kSteps] = {};
    int nodes = 0;
    double here = depth > 1 ? memory.trunk[depth - 2] : 0.0;
    here = rank < rows.candidates ? here + rows.at(depth, rank) : kNoScore;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
        if (i % kStepsAtOnce == 1 && alive[i - 1] == 0) {
            break;
        }
        score[i] = here;
        alive[i] = __ballot_sync(kFullWarp, !falls_short(here, least));
        nodes += __popc(alive[i]);
        here += down[(i + 1) * kHeadStride];
    }
    if (nodes == 0) {
        return kNone;
    }
    // Chains that are longer go on in the next round.
    const int handed = depth + kSteps <= rows.depths ? __popc(alive[kSteps - 1]) : 0;
    const int base = lane < 2 ? atomicAdd(&memory.counts[lane], lane == 0 ? nodes : handed) : 0;
    int at = trunk + __shfl_sync(kFullWarp, base, 0);
    const int chain = __shfl_sync(kFullWarp, base, 1);
    const int last = alive[0] == kFullWarp ? at + kWarp - 1 : kNone;
    if (lane == 0 && elder < capacity) {
        found.younger[elder] = static_cast<Small>(at);
    }
    // Scores step by step, the rest by a lane for each candidate.
    int mine = at;  // lane i: where the candidates of step i begin
    int end = at;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
        mine = lane >= i ? end : mine;
        if (i % kStepsAtOnce == 1 && alive[i] == 0) {
            break;
        }
        const int count = __popc(alive[i]);
        if (lane < count && end + lane < capacity) {
            found.score[end + lane] = score[i];
        }
        end += count;
    }
    mine = lane >= kSteps ? end : mine;
#pragma unroll 1
    for (; at < end; at += kWarp) {
        const int self = at + lane;
        const bool later = lane > 0 && lane < kSteps;  // a step but the first
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
    const int longest = __shfl_sync(kFullWarp, mine, kSteps - 1) + lane;
    if (lane < handed && longest < capacity) {
        memory.begin(chain + lane, longest, capacity);
    }
    __syncwarp();
    // Lane i asks whether step i has children of other ranks than 0: if any has, then the first rank's.
    const bool asks = lane + 1 < kSteps && mine < min(end, capacity);
    const double best = asks ? found.score[mine] : kNoScore;
    unsigned branching = __ballot_sync(kFullWarp, !falls_short(best + down[(lane % kSteps + 1) * kHeadStride + 1], least));
#pragma unroll 1
    for (; branching != 0; branching &= branching - 1) {
        const int i = __ffs(static_cast<int>(branching)) - 1;
        const int from = __shfl_sync(kFullWarp, mine, i) + lane;
        const int heir = __shfl_sync(kFullWarp, mine, i + 1) + lane;
        const bool branches = heir < __shfl_sync(kFullWarp, mine, i + 2) && from < capacity;
        branch_off(memory, found, rows, least, branches ? from : kNone, heir, depth + i + 1, trunk, capacity);
    }
    return last;
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

// A warp's share of a round: a chain for each `chunk` threads, up to chain `end`. There were `count` candidates
// before the round, which adds to `counts`. Returns how many there are by now.
__device__ __forceinline__ int grow_warp(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                         double least, int chunk, int chain, int end, int count, int32_t* counts,
                                         int capacity) {
    const int lane = threadIdx.x % kWarp;
    const int seat = lane & (chunk - 1);
    const unsigned before = low_bits(lane);
    const int from = memory.start[min(chain, end - 1)];
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
    const bool exists = chain < end && steps == seat && score >= least;
    const bool last = seat == chunk - 1;
    const bool goes_on = exists && depth < rows.depths;
    const unsigned fresh = __ballot_sync(kFullWarp, exists && seat > 0);
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
    const Branches branches = {seat == 0 ? from : upto, depth + 1, node_base + nodes + brood.place,
                               chain_base + brood.place, brood.heads + brood.more};
    if (fresh >> lane & 1 && upto < capacity) {
        found.put(upto, score, seat == 1 ? from : upto - 1, 0, depth);
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

// Threads per chain where there are so many, as a power of two: few chains tend to be long, many to be short.
__device__ __forceinline__ int chunk_for(int chains) {
    const int threads = static_cast<int>(blockDim.x);
    return chains * 16 <= threads ? 4 : chains * 8 <= 2 * threads ? 3 : 2;
}

// All candidates that score `least` or more; kSteps for the first round. If there are more than `capacity` the answer is kOverflow, and
// `capacity` of them are there. The first is the best. For the whole block, which sees the candidates. `memory`
// is clear.
template <int kSteps>
__device__ __forceinline__ int grow_chains(const ChainMemory& memory, const Candidates& found, const Rows& rows,
                                           double least, int capacity) {
    const int self = static_cast<int>(threadIdx.x);
    int count = grow_trunk<kSteps>(memory, found, rows, least, capacity);
    int turn = 2;
#pragma unroll 1
    for (int begin = 0, end = memory.counts[1]; begin < end && count <= capacity;) {
        int32_t* counts = memory.counts + turn;
        turn = turn + 2 < ChainMemory::kCounts ? turn + 2 : 0;
        if (self < 2) {
            memory.counts[turn + self] = 0;
        }
        const int shift = chunk_for(end - begin);
        const int warp = self / kWarp * kWarp >> shift;
        int reached = count;
#pragma unroll 1
        for (int first = begin; first + warp < end && reached <= capacity; first += blockDim.x >> shift) {
            reached = grow_warp(memory, found, rows, least, 1 << shift, first + (self >> shift), end, count, counts,
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
