// The partial results of one tile as the merge reads them, and what their peaks and totals amount to.
#pragma once

#include "attn_output.cuh"

namespace ddtree {
namespace mma {

// The parts of a tile, as a lane sees them: rows lane / 4 and 8 further of a block of 16.
template <class Tile>
struct Parts {
    const float* first_opened;  // record of the first part
    const float* others;        // where that of part 0 would be if it were like the others
    int count;
    int block;
    int row;  // of the tile

    static constexpr int64_t kStep = 2 * record_floats<Tile>();  // from worker to worker

    __device__ __forceinline__ Parts(const Problem& problem, const plan::Sharers& sharers, int block_of_tile) {
        first_opened = problem.partial + plan::slot(sharers.first, true) * record_floats<Tile>();
        others = problem.partial + plan::slot(sharers.first, false) * record_floats<Tile>();
        count = static_cast<int>(sharers.last - sharers.first) + 1;
        block = block_of_tile;
        row = block * 16 + threadIdx.x % 32 / 4;
    }

    __device__ __forceinline__ const float* record(int part) const {
        return part == 0 ? first_opened : others + part * kStep;
    }

    template <int kGroups>
    __device__ __forceinline__ void load(int part, int group, float4 (&value)[kGroups]) const {
        const float4* sums = reinterpret_cast<const float4*>(record(part) + 2 * Tile::kRows);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
            value[i] = sums[Tile::fragment(block, group + i) + threadIdx.x % 32];
        }
    }
};

// Peaks and totals of a lane's rows over all parts.
struct RowStatistics {
    float peak[2];
    float total[2];

    // What a part with peak `part_peak` counts; 0 in a row that saw nothing.
    __device__ __forceinline__ float factor(int i, float part_peak) const {
        return peak[i] == minus_infinity() ? 0.0f : ptx::exp2(part_peak - peak[i]);
    }
};

// Peaks and totals of a block's rows: [part][2][16], in shared memory if they fit, else where they are.
template <class Tile>
struct StatisticsTable {
    const Parts<Tile>& parts;
    float* table;
    bool fits;

    __device__ __forceinline__ StatisticsTable(const Parts<Tile>& parts_of_tile, float* memory, int most_parts)
        : parts(parts_of_tile), table(memory), fits(parts_of_tile.count <= most_parts) {}

    // kind 0: peak, 1: total; of the lane's row i.
    __device__ __forceinline__ float at(int part, int kind, int i) const {
        return fits ? table[part * 32 + kind * 16 + threadIdx.x % 32 / 4 + 8 * i]
                    : parts.record(part)[kind * Tile::kRows + parts.row + 8 * i];
    }

    __device__ __forceinline__ void fill(int thread, int threads) const {
#pragma unroll 6
        for (int i = thread; fits && i < parts.count * 32; i += threads) {
            table[i] = parts.record(i / 32)[i / 16 % 2 * Tile::kRows + parts.block * 16 + i % 16];
        }
    }
};

// The four lanes of a row take turns at the parts.
template <class Tile>
__device__ __forceinline__ RowStatistics statistics_of(const StatisticsTable<Tile>& table) {
    RowStatistics all = {{minus_infinity(), minus_infinity()}, {0.0f, 0.0f}};
    const int first = threadIdx.x % 4;
    for (int part = first; part < table.parts.count; part += 4) {
        all.peak[0] = fmaxf(all.peak[0], table.at(part, 0, 0));
        all.peak[1] = fmaxf(all.peak[1], table.at(part, 0, 1));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        all.peak[i] = fmaxf(all.peak[i], __shfl_xor_sync(0xffffffffu, all.peak[i], 1));
        all.peak[i] = fmaxf(all.peak[i], __shfl_xor_sync(0xffffffffu, all.peak[i], 2));
    }
    for (int part = first; part < table.parts.count; part += 4) {
        all.total[0] += all.factor(0, table.at(part, 0, 0)) * table.at(part, 1, 0);
        all.total[1] += all.factor(1, table.at(part, 0, 1)) * table.at(part, 1, 1);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        all.total[i] += __shfl_xor_sync(0xffffffffu, all.total[i], 1);
        all.total[i] += __shfl_xor_sync(0xffffffffu, all.total[i], 2);
    }
    return all;
}

}  // namespace mma
}  // namespace ddtree
