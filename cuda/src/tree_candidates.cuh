// The candidates of tree_build that reach a threshold, and how the children of one are counted.
//
// A child never scores more than its parent or its elder sibling (log-probs are <= 0 and sorted, rounding
// is monotone). So the candidates that reach T are closed under parents, and the children of a parent that
// do are its first few ranks: nothing else is looked at, and nothing is lost.
#pragma once

#include "tree_rows.cuh"

namespace ddtree {

constexpr int kOverflow = -1;
constexpr int kFewHeads = 4;  // are looked at first

// Parent, rank and depth in one word. The parent is a candidate or a node; none is 0xffff.
__device__ __forceinline__ uint32_t pack(int parent, int rank, int depth) {
    return static_cast<uint32_t>(parent) << 16 | static_cast<uint32_t>(rank) << 6 | static_cast<uint32_t>(depth);
}
__device__ __forceinline__ int parent_of(uint32_t packed) {
    return static_cast<int>(packed) >> 16;
}
__device__ __forceinline__ int rank_of(uint32_t packed) {
    return packed >> 6 & 0x3ff;
}
__device__ __forceinline__ int depth_of(uint32_t packed) {
    return packed & 0x3f;
}

struct Candidates {
    double* score;
    uint32_t* place;  // packed; children of the root have no parent
    Small* younger;   // if not in order: the sibling of one rank more, kNone if it is not there
    bool in_order;    // siblings lie side by side, and of one depth the smaller tuple comes first

    __host__ __device__ static int bytes(int capacity) {
        return capacity * static_cast<int>(sizeof(double) + sizeof(uint32_t) + sizeof(Small));
    }
    __device__ Candidates(unsigned char* memory, int capacity, bool in_order_of_tuples)
        : score(reinterpret_cast<double*>(memory)),
          place(reinterpret_cast<uint32_t*>(score + capacity)),
          younger(reinterpret_cast<Small*>(place + capacity)),
          in_order(in_order_of_tuples) {}

    // Writes kNoScore from candidate `begin` to `end`.
    __device__ void clear(int begin, int end) const {
#pragma unroll 1
        for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += blockDim.x) {
            score[i] = kNoScore;
        }
    }

    // Nobody has a younger sibling yet. Two links at a time: behind an odd number of them is room up to 16 bytes.
    __device__ void clear_links(int capacity) const {
#pragma unroll 1
        for (int i = threadIdx.x; i < (capacity + 1) / 2; i += blockDim.x) {
            reinterpret_cast<uint32_t*>(younger)[i] = 0xffffffffu;  // kNone, twice
        }
    }

    // The sibling of one rank more among `count` candidates, kNone if it is not there.
    __device__ int younger_of(int item, int count) const {
        if (!in_order) {
            return younger[item];
        }
        return item + 1 < count && parent_of(place[item + 1]) == parent_of(place[item]) ? item + 1 : kNone;
    }

    __device__ void put(int at, double its_score, int parent, int rank, int depth) const {
        score[at] = its_score;
        place[at] = pack(parent, rank, depth);
    }
};

// How many of the first `ranks` of `row` give `score` + log-prob >= least? `known` do. A warp asks together:
// first about the next 32, then at 32 places in what is left.
__device__ __forceinline__ int count_reaching(const float* row, double score, double least, int known, int ranks) {
    const int lane = threadIdx.x % kWarp;
    int low = known;
    int high = ranks;
#pragma unroll 1
    for (int step = 1; low < high; step = ceil_div(high - low, kWarp + 1)) {
        const int probe = low + (lane + 1) * step - 1;
        const int good = __popc(__ballot_sync(kFullWarp, probe < high && score + row[probe] >= least));
        high = good < kWarp ? min(high, low + (good + 1) * step - 1) : high;
        low += good * step;
    }
    return low;
}

// A parent's children, as its own thread counts them.
struct Brood {
    double score = kNoScore;  // the parent's
    int heads = 0;            // children among the first kHeads ranks
    int more = 0;             // children beyond
    int place = 0;            // children of the warp's parents before this one
    int all = 0;              // children of the warp's parents
    bool many = false;        // the warp has looked at all heads, not at kFewHeads
    double child[kFewHeads];  // scores of these, children or not
};

// 1 if `score` is less than `least`, which is finite: no score is -0. Quicker than a comparison in double: of the
// difference only the upper word is looked at.
__device__ __forceinline__ int falls_short(double score, double least) {
    return static_cast<int>(static_cast<uint32_t>(__double_as_longlong(score - least) >> 32) >> 31);
}

// Counts those of the heads of ranks kFirst to kEnd - 1 that are children, and writes all their scores.
template <int kFirst, int kEnd>
__device__ __forceinline__ void look_at_heads(const double* heads, double least, Brood& brood, double* child) {
    brood.heads += kEnd - kFirst;
#pragma unroll
    for (int rank = kFirst; rank < kEnd; ++rank) {
        child[rank] = brood.score + heads[rank];
        brood.heads -= falls_short(child[rank], least);
    }
}

// Gives up to kMost children of each parent their places. For a warp.
template <int kMost>
__device__ __forceinline__ void place_heads(Brood& brood) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int digit = 1; digit <= kMost; digit *= 2) {
        const unsigned lanes = __ballot_sync(kFullWarp, (brood.heads & digit) != 0);
        brood.place += digit * __popc(lanes & low_bits(lane));
        brood.all += digit * __popc(lanes);
    }
}

// Counts and places the children among the heads from rank kBegin on. Returns the lanes for which all heads are
// children: there may be more beyond. For a warp.
template <int kBegin>
__device__ __forceinline__ unsigned count_heads(const double* heads, double least, Brood& brood) {
    look_at_heads<kBegin, kFewHeads>(heads, least, brood, brood.child);
    unsigned all = __ballot_sync(kFullWarp, brood.heads == kFewHeads - kBegin);
    brood.many = all != 0;
    if (__builtin_expect(brood.many, 0)) {
        double child[kHeads];
        look_at_heads<kFewHeads, kHeads>(heads, least, brood, child);
        all = __ballot_sync(kFullWarp, brood.heads == kHeads - kBegin);
        place_heads<kHeads>(brood);
    } else {
        place_heads<kFewHeads - 1>(brood);
    }
    return all;
}

// Calls put(rank, score) for them.
template <int kBegin, class Put>
__device__ __forceinline__ void put_heads(const double* heads, const Brood& brood, const Put& put) {
#pragma unroll
    for (int rank = kBegin; rank < kFewHeads; ++rank) {
        if (rank - kBegin < brood.heads) {
            put(rank, brood.child[rank]);
        }
    }
    if (__builtin_expect(brood.many, 0)) {
        double child[kHeads];
#pragma unroll
        for (int rank = kFewHeads; rank < kHeads; ++rank) {
            child[rank] = brood.score + heads[rank];
        }
#pragma unroll
        for (int rank = kFewHeads; rank < kHeads; ++rank) {
            if (rank - kBegin < brood.heads) {
                put(rank, child[rank]);
            }
        }
    }
}

// Counts the children beyond the heads of the parents in `lanes`: a warp does one after the other.
// Their children are at `depth`.
__device__ __forceinline__ void count_more(const Rows& rows, double least, unsigned lanes, int depth, Brood& brood) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (unsigned left = lanes; left != 0; left &= left - 1) {
        const int owner = __ffs(static_cast<int>(left)) - 1;
        const double score = __shfl_sync(kFullWarp, brood.score, owner);
        const float* row = rows.row(__shfl_sync(kFullWarp, depth, owner));
        const int more = count_reaching(row, score, least, kHeads, rows.candidates) - kHeads;
        brood.more = lane == owner ? more : brood.more;
        brood.place += lane > owner ? more : 0;
        brood.all += more;
    }
}

}  // namespace ddtree
