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

// Lane d - 1 gets the cost of rank 0 all the way down to depth d; infinite where there is no such candidate.
__device__ __forceinline__ float first_costs(const Rows& rows) {
    const int lane = threadIdx.x % kWarp;
    float cost = lane < rows.depths ? fabsf(rows.row(lane + 1)[0]) : kInfinity;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const float other = __shfl_up_sync(kFullWarp, cost, step);
        cost += lane >= step ? other : 0.0f;
    }
    return cost;
}

// Lane n - 1 gets m for depth n.
__device__ __forceinline__ int rank_of_bound(int budget) {
    const int depth = threadIdx.x % kWarp + 1;
    return ceil_div(max(budget - depth, 0), depth * (depth + 1) / 2);
}

// A cost that `budget` candidates do not exceed, but for float32 rounding; infinite if none is found. Lane
// n - 1 tries depth n and `rank`. For whole warps.
__device__ __forceinline__ float bound_costs(const Rows& rows, float cost, int rank) {
    const int depth = threadIdx.x % kWarp + 1;
    const int place = min(rank, rows.candidates - 1);
    float excess = rank < rows.candidates ? 0.0f : kInfinity;
#pragma unroll 4
    for (int other = 1; other <= rows.depths; ++other) {
        const float* row = rows.row(other);
        const float its = row[0] - row[place];  // NaN where no rank is a candidate: then the cost is infinite
        excess = other <= depth ? fmaxf(excess, its) : excess;
    }
    return __uint_as_float(__reduce_min_sync(kFullWarp, __float_as_uint(cost + excess)));
}

// All candidates of a request: how many (capped), and what the worst of them costs.
struct All {
    int candidates;
    float worst;
};

__device__ __noinline__ All all_candidates(const Rows& rows) {
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
        const float first = ceilf(cost * per_unit);
        add_pairs(memory, rows, first < kPairBins ? static_cast<int>(first) : kPairBins);
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
// threshold. `rank`: rank_of_bound. `costs` (kWarp + 1) keeps the cost of rank 0 down to each depth. `meanwhile` is
// for all warps but the first, and its work seen by all afterwards. Rows and cleared memory are seen at entry.
template <class Count, class Work>
__device__ __forceinline__ Threshold find_threshold(const Count& count, const Rows& rows, int budget, int rank,
                                                    int enough, float* costs, const Work& meanwhile) {
    constexpr double kMargin = 1.0 + 1.0 / 65536;  // float32 rounding of up to L + 2 terms, many times over
    const int lane = threadIdx.x % kWarp;
    if (threadIdx.x < kWarp) {
        const float its = first_costs(rows);
        const float least = bound_costs(rows, its, rank);
        costs[lane] = its;
        if (lane == 0) {
            costs[kWarp] = least;
        }
    } else {
        meanwhile();
    }
    __syncthreads();
    const float cost = costs[lane];
    float bound = costs[kWarp];
    Threshold found = {-static_cast<double>(bound) * kMargin, -static_cast<double>(bound) * kMargin};
    if (!(bound < kLargestBound)) {
        const All all = all_candidates(rows);
        bound = all.worst;
        found = {kAnyScore, -static_cast<double>(bound)};
        if (all.candidates <= enough) {
            return found;
        }
    }
#pragma unroll 1
    for (bool again = false; bound < kLargestBound && bound > 1.0f / kLargestBound; again = true) {
        if (again) {
            __syncthreads();
            count.memory.clear(rows.depths);
            __syncthreads();
        }
        const float per_unit = (Count::kBins - Count::kSpare) / bound;
        const int last = count(rows, cost, per_unit, budget);
        if (last == Count::kBins) {
            break;
        }
        bound = static_cast<float>(last) / per_unit;
        found.least = -static_cast<double>(bound) * kMargin;
        found.lowest = found.least;
        if (last >= Count::kCoarse) {
            break;
        }
    }
    return found;
}

}  // namespace ddtree
