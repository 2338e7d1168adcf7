// Counts the candidates of tree_build by cost, in kCostBins bins of one width.
//
// The cost of a candidate is minus its score: the costs of rank 0 down to its depth, plus, per depth, the
// excess of its rank over rank 0. Excesses are rounded up to whole bins and rank-0 costs are rounded up once
// per prefix, so a candidate never costs more than its bin says. The candidates of depth d up to each bin follow
// from those of depth d-1 by adding row d's bins (a convolution). Two groups of threads count at once: one the
// upper half of the depths, one the paths through the lower half, per bin, which are joined in the end.
#pragma once

#include "tree_rows.cuh"

namespace ddtree {

constexpr int kCostBins = 64;
constexpr int kBatch = 4;       // runs that one thread takes at once
constexpr int kCountEnough = kMaxCandidates;  // counts are capped here: no budget is larger

// How the threads of a block share the counting.
constexpr int kSides = 2;                    // halves of the depths
constexpr int kParts = 4;                    // threads per bin
constexpr int kSide = kCostBins * kParts;    // threads of a side
constexpr int kRuns = kCostBins / kParts;    // room for runs per part

// Shared memory of the counting. A run is a bin that some ranks of a row fall into.
struct CountMemory {
    uint32_t* offset;     // [L, kParts, kRuns]: byte offset of the run's bin. Parts take runs in turn.
    uint32_t* entries;    // [L, kParts, kRuns]: ranks in it; batches are filled up with runs of none
    int32_t* batches;     // [L]: per part
    int32_t* ways;        // [2 sides, 2, 2 * kCostBins]: candidates up to a bin, or in it for the lower half, with
                          // kCostBins zeros in front
    int32_t* totals;      // [2 sides, kCostBins]: the same over all depths of the side

    __host__ __device__ static int words(int depths) {
        return depths * (2 * kCostBins + 1) + 10 * kCostBins;
    }
    __device__ CountMemory(unsigned char* memory, int depths) {
        ways = reinterpret_cast<int32_t*>(memory);
        totals = ways + 8 * kCostBins;
        offset = reinterpret_cast<uint32_t*>(totals + 2 * kCostBins);
        entries = offset + depths * kCostBins;
        batches = reinterpret_cast<int32_t*>(entries + depths * kCostBins);
    }
    __device__ int32_t* ways_of(int side) const { return ways + side * 4 * kCostBins + kCostBins; }

    // Before the barrier that precedes write_runs.
    __device__ void clear(int) const {
        for (int i = threadIdx.x; i < 10 * kCostBins / 4; i += blockDim.x) {
            reinterpret_cast<int4*>(ways)[i] = make_int4(0, 0, 0, 0);  // totals follow
        }
    }
};

// Writes each row's runs, and the start of the counting. Returns the number of depths that have any; in all
// threads.
__device__ __forceinline__ int write_runs(const CountMemory& memory, const Rows& rows, float cost, float per_unit) {
    constexpr int kPerBatch = kParts * kBatch;
    const int lane = threadIdx.x % kWarp;
    const int warps = blockDim.x / kWarp;
    const float scaled = ceilf(__fmul_ru(cost, per_unit));
    const int first = scaled < kCostBins ? static_cast<int>(scaled) : kCostBins;
    const int above = __shfl_up_sync(kFullWarp, first, 1);
    const int step = first - (lane > 0 ? above : 0);  // bins that rank 0 of my depth adds
    const int depths = __popc(__ballot_sync(kFullWarp, lane < rows.depths && first < kCostBins));
    if (threadIdx.x < kCostBins) {
        memory.ways_of(0)[threadIdx.x] = 1;
        memory.ways_of(1)[threadIdx.x] = threadIdx.x == 0;
    }
#pragma unroll 1
    for (int depth = threadIdx.x / kWarp; depth < depths; depth += warps) {
        const int offset = __shfl_sync(kFullWarp, step, depth);
        const float* row = rows.row(depth + 1);
        const float best = row[0];
        const auto bin_of = [&](int rank) {
            const float bins = rank < rows.candidates ? ceilf(__fmul_ru(best - row[rank], per_unit)) : kCostBins;
            return bins < kCostBins - offset ? offset + static_cast<int>(bins) : kCostBins;
        };
        const auto put = [&](int run, int bin, int entries) {
            const int at = depth * kCostBins + run % kParts * kRuns + run / kParts;
            memory.offset[at] = bin * sizeof(int32_t);
            memory.entries[at] = entries;
        };
        int runs = 0;
        int open = 0;  // entries since the last run ended
        unsigned counted = kFullWarp;
#pragma unroll 1
        for (int start = 0; start < rows.candidates && counted == kFullWarp; start += kWarp) {
            const int bin = bin_of(start + lane);
            const bool ends = bin < kCostBins && bin_of(start + lane + 1) != bin;
            const unsigned ended = __ballot_sync(kFullWarp, ends);
            counted = __ballot_sync(kFullWarp, bin < kCostBins);
            const unsigned before = ended & low_bits(lane);
            if (ends) {
                put(runs + __popc(before), bin,
                    before != 0 ? lane + 1 - kWarp + __clz(static_cast<int>(before)) : lane + 1 + open);
            }
            runs += __popc(ended);
            open = ended != 0 ? __clz(static_cast<int>(ended)) : open + kWarp;
        }
        const int batches = (runs + kPerBatch - 1) / kPerBatch;
        if (runs + lane < batches * kPerBatch) {
            put(runs + lane, 0, 0);
        }
        if (lane == 0) {
            memory.batches[depth] = batches;
        }
    }
    return depths;
}

// The first bin up to which `budget` candidates lie, kCostBins if there are fewer.
__device__ __forceinline__ int count_costs(const CountMemory& memory, int depths, int budget) {
    const int self = static_cast<int>(threadIdx.x);
    const int side = self / kSide;
    const int bin = self % kSide / kParts;
    const int part = self % kParts;
    const int half = (depths + 1) / 2;
    const int begin = side == 0 ? 0 : half;
    const int steps = side == 0 ? half : side < kSides ? depths - half : 0;
    int32_t* ways = memory.ways_of(side < kSides ? side : 0) + bin;
    const int runs = begin * kCostBins + part * kRuns;
    const uint4* offset = reinterpret_cast<const uint4*>(memory.offset + runs);
    const uint4* entries = reinterpret_cast<const uint4*>(memory.entries + runs);
    uint4 at = {};
    uint4 of = {};
    int batches = 0;
    if (steps > 0) {
        at = offset[0];
        of = entries[0];
        batches = memory.batches[begin];
    }
    int total = 0;
    int turn = 0;
#pragma unroll 1
    for (int step = 0; step < half; ++step) {
        if (step < steps) {
            const unsigned char* from = reinterpret_cast<const unsigned char*>(ways + turn);
            const auto at_offset = [&](uint32_t bytes) { return *reinterpret_cast<const uint32_t*>(from - bytes); };
            const auto batch = [&](const uint4& its_at, const uint4& its_of) {
                return at_offset(its_at.x) * its_of.x + at_offset(its_at.y) * its_of.y +
                       at_offset(its_at.z) * its_of.z + at_offset(its_at.w) * its_of.w;
            };
            uint32_t sum = batch(at, of);
#pragma unroll 1
            for (int i = 1; i < batches; ++i) {
                at = offset[i];
                of = entries[i];
                sum += batch(at, of);
            }
#pragma unroll
            for (int lanes = 1; lanes < kParts; lanes *= 2) {
                sum += __shfl_xor_sync(kFullWarp, sum, lanes);
            }
            sum = min(sum, static_cast<uint32_t>(kCountEnough));
            total += sum;
            turn ^= 2 * kCostBins;
            if (part == 0) {
                ways[turn] = sum;
            }
            offset += kCostBins / kBatch;
            entries += kCostBins / kBatch;
            if (step + 1 < steps) {
                at = offset[0];
                of = entries[0];
                batches = memory.batches[begin + step + 1];
            } else if (part == 0) {
                memory.totals[side * kCostBins + bin] = total;
            }
        }
        __syncthreads();
    }
    if (depths > half) {
        // Every candidate of depth `half`, with every path below it.
        constexpr int kJoiners = kParts * 2;  // threads per bin
        const int joined = self / kJoiners;
        const int first = self % kJoiners * (kCostBins / kJoiners);
        int sum = 0;
        if (joined < kCostBins) {
            const int32_t* from = memory.ways_of(0) + half % 2 * 2 * kCostBins + joined - first;
            const int4* below = reinterpret_cast<const int4*>(memory.totals + kCostBins + first);
#pragma unroll
            for (int i = 0; i < kCostBins / kJoiners; i += 4) {
                const int4 four = below[i / 4];
                sum += from[-i] * four.x + from[-i - 1] * four.y + from[-i - 2] * four.z + from[-i - 3] * four.w;
            }
#pragma unroll
            for (int lanes = 1; lanes < kJoiners; lanes *= 2) {
                sum += __shfl_xor_sync(kFullWarp, sum, lanes);
            }
            if (first == 0) {
                memory.totals[joined] = min(memory.totals[joined] + sum, kMaxDepth * kCountEnough);
            }
        }
        __syncthreads();
    }
    if (depths == 0) {
        return kCostBins;
    }
    const int lane = self % kWarp;
    const unsigned low = __ballot_sync(kFullWarp, memory.totals[lane] >= budget);
    const unsigned high = __ballot_sync(kFullWarp, memory.totals[kWarp + lane] >= budget);
    return low != 0    ? __ffs(static_cast<int>(low)) - 1
           : high != 0 ? kWarp + __ffs(static_cast<int>(high)) - 1
                       : kCostBins;
}

}  // namespace ddtree
