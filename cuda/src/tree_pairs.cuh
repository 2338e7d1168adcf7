// Counts the candidates of tree_build with at most two ranks that are not 0, by cost, in a bin per lane.
//
// For small trees these are nearly all that matter, and they are counted for all depths at once. The cost of a
// candidate is the cost of rank 0 down to its depth, plus the excess over rank 0 of each rank that is not.
// Each of the three terms is rounded up to whole bins, so a candidate never costs more than its bin says.
#pragma once

#include "tree_rows.cuh"

namespace ddtree {

constexpr int kPairBins = kWarp;
constexpr int kPairWords = kPairBins / 4;  // counts of a bin are bytes

// Shared memory of the counting.
struct PairMemory {
    int32_t* totals;   // [kPairBins]: candidates
    uint32_t* ranks;   // [L, kPairWords]: ranks of this depth but 0
    uint32_t* before;  // [L, 2 * kPairWords]: ranks of all depths before, last bin first, then zeros

    __host__ __device__ static int words(int depths) { return kPairBins + depths * 3 * kPairWords; }
    __device__ PairMemory(unsigned char* memory, int depths)
        : totals(reinterpret_cast<int32_t*>(memory)),
          ranks(reinterpret_cast<uint32_t*>(totals + kPairBins)),
          before(ranks + depths * kPairWords) {}

    // Before the barrier that precedes count_ranks.
    __device__ void clear(int depths) const {
        for (int i = threadIdx.x; i < words(depths) / 4; i += blockDim.x) {
            reinterpret_cast<uint4*>(totals)[i] = make_uint4(0, 0, 0, 0);  // the others follow
        }
    }
};

// Sum of the products of four bytes each.
__device__ __forceinline__ unsigned dot_bytes(uint32_t a, uint32_t b, unsigned sum) {
#ifdef __CUDA_ARCH__
    return __dp4a(a, b, sum);
#else
    for (int shift = 0; shift < 32; shift += 8) {
        sum += (a >> shift & 0xff) * (b >> shift & 0xff);
    }
    return sum;
#endif
}

// Writes how many ranks of each depth cost so much more than rank 0. At most 255 ranks per row; a warp takes
// whole rows. `ranks` is clear.
__device__ __forceinline__ void count_ranks(const PairMemory& memory, const Rows& rows, float per_unit) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (int depth = threadIdx.x / kWarp; depth < rows.depths; depth += blockDim.x / kWarp) {
        const float* row = rows.row(depth + 1);
        uint8_t* counts = reinterpret_cast<uint8_t*>(memory.ranks + depth * kPairWords);
        const float best = row[0];
#pragma unroll 1
        for (int start = 1; start < rows.candidates; start += kWarp) {
            const int rank = start + lane;
            const float bins = rank < rows.candidates ? ceilf((best - row[rank]) * per_unit) : kPairBins;
            const int bin = bins < kPairBins ? static_cast<int>(bins) : kPairBins;  // that for NaN
            // Bins do not fall, so the ranks of a bin are neighbours.
            const int next = __shfl_down_sync(kFullWarp, bin, 1);
            const bool ends = bin < kPairBins && (lane == kWarp - 1 || next != bin);
            const unsigned ended = __ballot_sync(kFullWarp, ends);
            if (ends) {
                const unsigned before = ended & low_bits(lane);
                counts[bin] += lane + 1 - (before != 0 ? kWarp - __clz(static_cast<int>(before)) : 0);
            }
            if (ended >> (kWarp - 1) == 0) {
                break;
            }
            __syncwarp();
        }
    }
}

// Adds up the candidates by the depth of their last rank that is not 0. Lane d - 1 has the bin `first` of rank 0
// down to depth d, kPairBins if that is beyond the bins.
__device__ __forceinline__ void add_pairs(const PairMemory& memory, const Rows& rows, int first) {
    const int lane = threadIdx.x % kWarp;
    const int inside = __popc(__ballot_sync(kFullWarp, lane < rows.depths && first < kPairBins));
    if (static_cast<int>(threadIdx.x) < inside) {
        atomicAdd(&memory.totals[first], 1);
    }
#pragma unroll 1
    for (int depth = threadIdx.x / kWarp; depth < inside; depth += blockDim.x / kWarp) {
        const uint8_t* counts = reinterpret_cast<const uint8_t*>(memory.ranks) + lane;
        unsigned before = 0;
#pragma unroll 8
        for (int other = 0; other < depth; ++other) {
            before += counts[other * kPairBins];
        }
        uint32_t* reversed = memory.before + depth * 2 * kPairWords;
        reinterpret_cast<uint8_t*>(reversed)[kPairBins - 1 - lane] = static_cast<uint8_t>(min(before, 255u));
        __syncwarp();
        // Sum over bins b of ranks[b] * before[lane - b].
        const uint32_t* ranks = memory.ranks + depth * kPairWords;
        const uint32_t* from = reversed + (kPairBins - 1 - lane) / 4;
        const int shift = (kPairBins - 1 - lane) % 4 * 8;
        unsigned paths = counts[depth * kPairBins];
        uint32_t word = from[0];
#pragma unroll
        for (int i = 0; i < kPairWords; ++i) {
            const uint32_t next = from[i + 1];
            const uint64_t both = static_cast<uint64_t>(next) << 32 | word;
            paths = dot_bytes(ranks[i], static_cast<uint32_t>(both >> shift), paths);
            word = next;
        }
        // They end here, or go on with ranks 0.
        unsigned sum = 0;
#pragma unroll 8
        for (int end = depth; end < inside; ++end) {
            const int by = __shfl_sync(kFullWarp, first, end);
            const unsigned moved = __shfl_up_sync(kFullWarp, paths, by);
            sum += lane >= by ? moved : 0;
        }
        atomicAdd(&memory.totals[lane], static_cast<int>(sum));
    }
}

// The first bin up to which `budget` candidates lie, kPairBins if there are fewer. For whole warps, each of which
// gets the result.
__device__ __forceinline__ int first_bin(const PairMemory& memory, int budget) {
    const int lane = threadIdx.x % kWarp;
    int upto = memory.totals[lane];
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const int other = __shfl_up_sync(kFullWarp, upto, step);
        upto += lane >= step ? other : 0;
    }
    const unsigned reached = __ballot_sync(kFullWarp, upto >= budget);
    return reached != 0 ? __ffs(static_cast<int>(reached)) - 1 : kPairBins;
}

}  // namespace ddtree
