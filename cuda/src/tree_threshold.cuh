// A score that at least `budget` candidates of tree_build reach, found by counting.
//
// Any T that `budget` candidates reach is a valid threshold: the tree is among the candidates that score T
// or more. So T may be estimated in float32, as long as the estimate errs to the low side only. The first bin
// of costs up to which `budget` candidates lie gives T. Small trees count the candidates with at most two
// ranks that are not 0 (tree_pairs.cuh), large ones all (tree_count.cuh).
//
// The width of a bin comes from the candidates with at most one rank that is not 0, that one at most m and the
// depth at most n: there are n + m * n * (n + 1) / 2, and for the m that makes them `budget` the worst of them
// bounds the cost, for any n. Where the least of these bounds proves wide the counting is repeated with
// finer bins.
#pragma once

#include "tree_count.cuh"
#include "tree_pairs.cuh"

namespace ddtree {

constexpr float kLargestBound = 1e27f;

// Lane d - 1 gets the cost of rank 0 all the way down to depth d; infinite where there is no such candidate. It has the
// log-prob of that rank 0.
__device__ __forceinline__ float first_costs(float first) {
    const int lane = threadIdx.x % kWarp;
    float cost = fabsf(first);
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const float other = __shfl_up_sync(kFullWarp, cost, step);
        cost += lane >= step ? other : 0.0f;
    }
    return cost;
}

// Lane d - 1 gets the score of the same candidate.
__device__ __forceinline__ double first_scores(const Rows& rows) {
    const int lane = threadIdx.x % kWarp;
    double score = 0.0;
#pragma unroll 1
    for (int begin = 0; begin < rows.depths; begin += kAtOnce) {
#pragma unroll
        for (int depth = begin; depth < begin + kAtOnce; ++depth) {
            score += depth <= min(lane, rows.depths - 1) ? rows.heads_of(depth + 1)[0] : 0.0;
        }
    }
    return score;
}

// Lane n - 1 gets m for depth n.
__device__ __forceinline__ int rank_of_bound(int budget) {
    const int depth = threadIdx.x % kWarp + 1;
    return ceil_div(max(budget - depth, 0), depth * (depth + 1) / 2);
}

// What the bound of a depth n is made from, shared by a block: the cost of rank 0 down to depth n, and the largest
// excess of `rank` over rank 0 up to there, for lane n - 1.
struct BoundMemory {
    double* trunk;    // [kWarp]: the scores of these candidates
    float* cost;      // [kWarp]
    int32_t* excess;  // [kWarp]: as bits

    // Before the barrier that precedes begin_bound.
    __device__ void clear() const {
        if (threadIdx.x < kWarp) {
            excess[threadIdx.x] = 0;
        }
    }
};

// What a thread asks for as early as can be. In the last warp lane d - 1 gets the log-prob of rank 0 of depth d,
// infinite for none. In the others, where rows are narrow, a lane gets that of its rank in the warp's row, -inf behind
// the last.
struct Early {
    const float* at;
    bool exists;
    float otherwise;

    __device__ Early(const float* source, int depths, int width, bool narrow) {
        const int lane = threadIdx.x % kWarp;
        const int warp = threadIdx.x / kWarp;
        const bool is_last = warp == static_cast<int>(blockDim.x) / kWarp - 1;
        at = source + (is_last ? lane * width : warp * width + lane);
        exists = is_last ? lane < depths : narrow && warp < depths && lane < width;
        otherwise = is_last ? kInfinity : -kInfinity;
    }
};

// Fills the memory of the bound, and the heads of the rows. A warp takes whole rows, the last one the costs: its lanes
// have the log-probs `first` of rank 0. The others have those of the ranks in their first row.
__device__ __forceinline__ void begin_bound(const BoundMemory& memory, const Rows& rows, int rank, float first,
                                            double* heads, int32_t* ties) {
    const int lane = threadIdx.x % kWarp;
    const int warps = blockDim.x / kWarp - 1;
    const int warp = threadIdx.x / kWarp;
    if (warp == warps) {
        memory.cost[lane] = first_costs(first);
        return;
    }
#pragma unroll 1
    for (int depth = warp; depth < rows.depths; depth += warps) {
        const float* row = rows.row(depth + 1);
        const float worst = row[min(rank, rows.candidates - 1)];
        if (depth != warp) {
            first = row[min(lane, rows.candidates - 1)];
        }
        // NaN where no rank is a candidate: then the cost is infinite.
        const float excess = fmaxf(__shfl_sync(kFullWarp, first, 0) - worst, 0.0f);
        fill_heads(heads, ties, rows, depth + 1, first);
        if (lane >= depth) {
            atomicMax(&memory.excess[lane], static_cast<int32_t>(__float_as_uint(excess)));
        }
    }
}

// A cost that `budget` candidates do not exceed, but for float32 rounding; infinite if none is found. For whole
// warps.
__device__ __forceinline__ float end_bound(const BoundMemory& memory, const Rows& rows, int rank) {
    const int lane = threadIdx.x % kWarp;
    const float cost = memory.cost[lane] + __uint_as_float(static_cast<uint32_t>(memory.excess[lane]));
    return __uint_as_float(__reduce_min_sync(kFullWarp, __float_as_uint(rank < rows.candidates ? cost : kInfinity)));
}

// All candidates of a request: how many (capped), and what the worst of them costs.
struct All {
    int candidates;
    float worst;
};

__device__ __forceinline__ All all_candidates(const Rows& rows) {
    constexpr int kCap = 1 << 20;
    const int lane = threadIdx.x % kWarp;
    int ranks = 0;
    float last = 0.0f;
    if (lane < rows.depths) {
        const float* row = rows.row(lane + 1);
        for (int high = rows.candidates; ranks < high;) {
            const int middle = (ranks + high) / 2;
            const bool finite = row[middle] > -kInfinity;
            ranks = finite ? middle + 1 : ranks;
            high = finite ? high : middle;
        }
        last = ranks > 0 ? fabsf(row[ranks - 1]) : 0.0f;
    }
    All all = {0, 0.0f};
    int level = 1;
    for (int depth = 0; depth < rows.depths && level > 0; ++depth) {
        level = min(level * __shfl_sync(kFullWarp, ranks, depth), kCap);
        all.worst += __shfl_sync(kFullWarp, last, depth);
        all.candidates = min(all.candidates + level, kCap);
    }
    return all;
}

// Two ways to count, with one interface: the first bin of 1 / per_unit up to which `budget` candidates lie.
// Memory is clear and seen by all at entry, and may be used again after the call once it is clear.
struct CountPairs {
    static constexpr int kBins = kPairBins;
    static constexpr int kSpare = 3;    // bins for rounding up, when the last bin is put at a bound
    static constexpr int kCoarse = 10;  // a result below this is worth finer bins
    PairMemory memory;

    __device__ int operator()(const Rows& rows, float cost, float per_unit, int budget) const {
        count_ranks(memory, rows, per_unit);
        __syncthreads();
        add_pairs(memory, rows, pair_bin(__fmul_ru(cost, per_unit)));
        __syncthreads();
        return first_bin(memory, budget);
    }
};

struct CountAll {
    static constexpr int kBins = kCostBins;
    static constexpr int kSpare = 3;
    static constexpr int kCoarse = 16;
    CountMemory memory;

    __device__ int operator()(const Rows& rows, float cost, float per_unit, int budget) const {
        const int depths = write_runs(memory, rows, cost, per_unit);
        __syncthreads();
        return count_costs(memory, depths, budget);
    }
};

// For all threads of a block; all get the result. `enough`: so many candidates are welcome without any
// threshold. `rank`: rank_of_bound. Rows, cleared memory and what begin_bound has written are seen at entry,
// the trunk is seen afterwards.
template <class Count>
__device__ __forceinline__ Threshold find_threshold(const Count& count, const Rows& rows, int budget, int rank,
                                                    int enough, const BoundMemory& memory) {
    constexpr double kMargin = 1.0 + 1.0 / 65536;  // float32 rounding of up to L + 2 terms, many times over
    const float cost = memory.cost[threadIdx.x % kWarp];
    float bound = end_bound(memory, rows, rank);
    if (threadIdx.x / kWarp == blockDim.x / kWarp - 1) {
        memory.trunk[threadIdx.x % kWarp] = first_scores(rows);  // counting leaves this warp time
    }
    bool any = false;  // all candidates reach it
    bool welcome = false;
    if (__builtin_expect(!(bound < kLargestBound), 0)) {
        const All all = all_candidates(rows);
        bound = all.worst;
        any = true;
        welcome = all.candidates <= enough;
    }
    const auto countable = [](float cost) { return cost < kLargestBound && cost > 1.0f / kLargestBound; };
    if (__builtin_expect(welcome || !countable(bound), 0)) {
        __syncthreads();  // nothing is counted: the trunk is seen all the same
    }
#pragma unroll 1
    while (countable(bound) && !welcome) {
        const float per_unit = (Count::kBins - Count::kSpare) / bound;
        const float unit = bound * (1.0f / (Count::kBins - Count::kSpare));  // not after the counting, when all wait
        const int last = count(rows, cost, per_unit, budget);
        if (__builtin_expect(last == Count::kBins, 0)) {
            break;
        }
        bound = static_cast<float>(last) * unit;
        any = false;
        if (__builtin_expect(last >= Count::kCoarse, 1)) {
            break;
        }
        __syncthreads();
        count.memory.clear(rows.depths);
        __syncthreads();
    }
    const double lowest = -static_cast<double>(bound) * kMargin;
    return {any ? kAnyScore : lowest, lowest};
}

}  // namespace ddtree
