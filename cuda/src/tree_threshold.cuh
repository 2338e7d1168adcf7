// A score that at least `budget` candidates of tree_build reach, found by counting.
//
// Any T that `budget` candidates reach is a valid threshold: the tree is among the candidates that score T
// or more. So T may be estimated in float32, as long as the estimate errs to the low side only. The first bin
// of costs up to which `budget` candidates lie (tree_count.cuh) gives T.
//
// The width of a bin comes from the candidates "all rank 0, then rank r": they are counted by magnitude
// (four steps an octave), and the budget-th of them bounds the cost from above. Where that bound proves
// wide the counting is repeated with finer bins.
#pragma once

#include "tree_count.cuh"

namespace ddtree {

constexpr int kSpareBins = 4;    // room for rounding up when the last bin is put at a bound
constexpr int kCoarseBins = 16;  // a result below this is worth finer bins
constexpr int kMagnitudeShift = 21;                // a float's exponent and two bits
constexpr int kLowestMagnitude = (127 - 40) << 2;  // 2^-40

// Lane d - 1 gets the cost of rank 0 all the way down to depth d; infinite where there is no such candidate.
__device__ __forceinline__ float first_costs(const Rows& rows) {
    const int lane = threadIdx.x % kWarp;
    float cost = lane < rows.depths ? fabsf(rows.row(lane + 1)[0]) : 0.0f;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const float other = __shfl_up_sync(kFullWarp, cost, step);
        cost += lane >= step ? other : 0.0f;
    }
    return cost;
}

// Counts the candidates "all rank 0, then rank r" by magnitude. A warp takes whole rows.
__device__ __forceinline__ void count_magnitudes(const CountMemory& memory, const Rows& rows, int ranks, float cost) {
    const int lane = threadIdx.x % kWarp;
    const int warps = blockDim.x / kWarp;
#pragma unroll 1
    for (int depth = 1 + threadIdx.x / kWarp; depth <= rows.depths; depth += warps) {
        const float base = __shfl_sync(kFullWarp, cost, depth - 1);
        const float* row = rows.row(depth);
        const float best = row[0];
#pragma unroll 1
        for (int rank = lane; rank < ranks; rank += kWarp) {
            const float total = base + (best - row[rank]);
            const int magnitude = static_cast<int>(__float_as_uint(total) >> kMagnitudeShift) - kLowestMagnitude;
            if (total < kInfinity) {
                atomicAdd(&memory.magnitudes[min(max(magnitude, 0), kMagnitudes - 1)], 1);
            }
        }
    }
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

// For all threads of a block of kThreads or more; all get the result. `enough`: so many candidates are
// welcome without any threshold. Rows and cleared memory are seen by all at entry.
template <int kThreads>
__device__ __forceinline__ Threshold find_threshold(const CountMemory& memory, const Rows& rows, int budget,
                                                    int comb_ranks, int enough) {
    using Shape = CountShape<kThreads>;
    constexpr float kLargestBound = 1e27f;
    constexpr double kMargin = 1.0 + 1.0 / 65536;  // float32 rounding of up to L + 2 terms, many times over
    const float cost = first_costs(rows);
    count_magnitudes(memory, rows, comb_ranks, cost);
    __syncthreads();
    Threshold found = {kAnyScore, 0.0};
    const int magnitude = first_reaching<kMagnitudes / kWarp>(memory.magnitudes, budget);
    float bound = __uint_as_float(static_cast<uint32_t>(magnitude + 1 + kLowestMagnitude) << kMagnitudeShift);
    if (magnitude >= kMagnitudes - 1) {
        const All all = all_candidates(rows);
        bound = all.worst;
        found.lowest = -static_cast<double>(bound);
        if (all.candidates <= enough) {
            return found;
        }
    }
#pragma unroll 1
    while (bound < kLargestBound && bound > 1.0f / kLargestBound) {
        const float per_unit = (kCostBins - kSpareBins) / bound;
        const int depths = write_runs<Shape>(memory, rows, cost, per_unit);
        __syncthreads();
        const int last = count_costs<Shape>(memory, depths, budget);
        if (last == kCostBins) {
            break;
        }
        bound = static_cast<float>(last) / per_unit;
        found.least = -static_cast<double>(bound) * kMargin;
        found.lowest = found.least;
        if (last == 0 || last >= kCoarseBins) {
            break;
        }
    }
    return found;
}

}  // namespace ddtree
