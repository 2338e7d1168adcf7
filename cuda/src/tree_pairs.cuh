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
    int32_t* totals;   // [kPairBins]: candidates up to this bin
    uint32_t* ranks;   // [L, kPairWords]: ranks of this depth but 0 in this bin
    uint32_t* upto;    // [L, kPairWords]: the same up to this bin
    uint32_t* before;  // [L, 2 * kPairWords]: ranks of all depths before up to this bin, last bin first, then zeros

    __host__ __device__ static int words(int depths) { return kPairBins + depths * 4 * kPairWords; }
    __device__ PairMemory(unsigned char* memory, int depths)
        : totals(reinterpret_cast<int32_t*>(memory)),
          ranks(reinterpret_cast<uint32_t*>(totals + kPairBins)),
          upto(ranks + depths * kPairWords),
          before(upto + depths * kPairWords) {}

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

// Rounded up; kPairBins for what is beyond the bins, and for NaN.
__device__ __forceinline__ int pair_bin(float bins) {
    return static_cast<int>(ceilf(fminf(bins, static_cast<float>(kPairBins))));
}

// Writes how many ranks of each depth cost so much more than rank 0. At most 255 ranks per row; a warp takes whole
// rows, a lane bins one rank of 32. Bins rise with the rank: the last rank of each is how many there are up to it, and
// up to the empty bins behind it.
__device__ __forceinline__ void count_ranks(const PairMemory& memory, const Rows& rows, float per_unit) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (int depth = threadIdx.x / kWarp; depth < rows.depths; depth += blockDim.x / kWarp) {
        const float* row = rows.row(depth + 1);
        uint8_t* ranks = reinterpret_cast<uint8_t*>(memory.ranks) + depth * kPairBins;
        uint8_t* upto = reinterpret_cast<uint8_t*>(memory.upto) + depth * kPairBins;
        const float best = row[0];
        bool more = true;
        unsigned taken = 0;  // bins that are not empty
#pragma unroll 1
        for (int start = 1; start < rows.candidates && more; start += kWarp) {
            const int rank = start + lane;
            const int bin = rank < rows.candidates ? pair_bin(__fmul_ru(best - row[rank], per_unit)) : kPairBins;
            const int after = __shfl_down_sync(kFullWarp, bin, 1);
            more = __all_sync(kFullWarp, bin < kPairBins);
            taken |= __reduce_or_sync(kFullWarp, bin < kPairBins ? 1u << bin : 0u);
            if (bin < kPairBins && (after != bin || lane == kWarp - 1)) {
                ranks[bin] = static_cast<uint8_t>(rank);
            }
            __syncwarp();  // a bin may go on with the next ranks
        }
        const unsigned before = taken & low_bits(lane + 1);
        const int mine = before != 0 ? ranks[kWarp - 1 - __clz(static_cast<int>(before))] : 0;
        const int below = __shfl_up_sync(kFullWarp, mine, 1);
        __syncwarp();
        ranks[lane] = static_cast<uint8_t>(mine - (lane > 0 ? below : 0));
        upto[lane] = static_cast<uint8_t>(mine);
    }
}

// Adds up the candidates by the depth of their last rank that is not 0. Lane d - 1 has the bin `first` of rank 0
// down to depth d, kPairBins if that is beyond the bins.
__device__ __forceinline__ void add_pairs(const PairMemory& memory, const Rows& rows, int first) {
    const int lane = threadIdx.x % kWarp;
    const int inside = __popc(__ballot_sync(kFullWarp, lane < rows.depths && first < kPairBins));
#pragma unroll 1
    for (int depth = threadIdx.x / kWarp; depth < inside; depth += blockDim.x / kWarp) {
        const uint8_t* upto = reinterpret_cast<const uint8_t*>(memory.upto) + lane;
        unsigned before = 0;
#pragma unroll 1
        for (int begin = 0; begin < depth; begin += kAtOnce) {
#pragma unroll
            for (int other = begin; other < begin + kAtOnce; ++other) {
                before += other < depth ? upto[other * kPairBins] : 0;
            }
        }
        uint32_t* reversed = memory.before + depth * 2 * kPairWords;
        reinterpret_cast<uint8_t*>(reversed)[kPairBins - 1 - lane] = static_cast<uint8_t>(min(before, 255u));
        __syncwarp();
        // Sum over bins b of ranks[b] * before[lane - b].
        const uint4* words = reinterpret_cast<const uint4*>(memory.ranks + depth * kPairWords);
        const uint4 low = words[0];
        const uint4 high = words[1];
        const uint32_t ranks[kPairWords] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        const uint32_t* from = reversed + (kPairBins - 1 - lane) / 4;
        const int shift = (kPairBins - 1 - lane) % 4 * 8;
        unsigned paths = upto[depth * kPairBins] + (depth == 0 ? 1 : 0);  // rank 0 all the way is one more
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
#pragma unroll 1
        for (int begin = depth; begin < inside; begin += kAtOnce) {
#pragma unroll
            for (int end = begin; end < begin + kAtOnce; ++end) {
                const int by = __shfl_sync(kFullWarp, first, end);
                const unsigned moved = __shfl_up_sync(kFullWarp, paths, by);
                sum += end < inside && lane >= by ? moved : 0;
            }
        }
        atomicAdd(&memory.totals[lane], static_cast<int>(sum));
    }
}

// The first bin up to which `budget` candidates lie, kPairBins if there are fewer. For whole warps, each of which
// gets the result.
__device__ __forceinline__ int first_bin(const PairMemory& memory, int budget) {
    const unsigned reached = __ballot_sync(kFullWarp, memory.totals[threadIdx.x % kWarp] >= budget);
    return reached != 0 ? __ffs(static_cast<int>(reached)) - 1 : kPairBins;
}

}  // namespace ddtree
