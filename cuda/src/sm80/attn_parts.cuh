// The partial results of one tile as the merge reads them, and sums of them.
#pragma once

#include "attn_output.cuh"

namespace ddtree {
namespace mma {

// The parts of a tile, as a lane sees them: rows lane / 4 and 8 further of a block of 16 rows.
template <class Tile>
struct Parts {
    const float* partial;
    int first;  // worker
    int count;
    int block;

    __device__ __forceinline__ Parts(const Problem& problem, const Shares& shares)
        : partial(problem.partial), first(shares.first), count(shares.parts), block(shares.block) {}

    __device__ __forceinline__ const float* record(int part) const {
        return partial + plan::slot(first + part, part == 0) * record_floats<Tile>();
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

// Some parts of a lane's rows, weighted to a common peak: its two columns of kGroups column groups.
template <int kGroups>
struct Sum {
    float peak[2];
    float total[2];
    float4 value[kGroups];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            peak[i] = minus_infinity();
            total[i] = 0.0f;
        }
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            value[group] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }

    // What something with peak `other` counts under this peak; 0 in a row that saw nothing.
    __device__ __forceinline__ float factor(int i, float other) const {
        return peak[i] == minus_infinity() ? 0.0f : ptx::exp2(other - peak[i]);
    }

    __device__ __forceinline__ void rescale(float low, float high) {
        total[0] *= low;
        total[1] *= high;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            value[group] = make_float4(low * value[group].x, low * value[group].y, high * value[group].z,
                                       high * value[group].w);
        }
    }

    __device__ __forceinline__ void add(float low, float high, const float4 (&more)[kGroups]) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            value[group].x += low * more[group].x;
            value[group].y += low * more[group].y;
            value[group].z += high * more[group].z;
            value[group].w += high * more[group].w;
        }
    }
};

// Parts under way: everything is asked for before anything is used. Lane l < 16 has the peak of row l of the
// block, the others a total.
template <int kBatch, int kGroups>
struct Batch {
    float statistic[kBatch];
    float4 value[kBatch][kGroups];

    // Parts first, first + step, ..; nothing past the last.
    template <class Tile>
    __device__ __forceinline__ void load(const Parts<Tile>& parts, int first, int step, int group) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
            const int part = first + i * step;
            statistic[i] = lane < 16 ? minus_infinity() : 0.0f;
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
                value[i][j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
            if (part < parts.count) {
                statistic[i] = parts.record(part)[lane / 16 * Tile::kRows + parts.block * 16 + lane % 16];
                parts.load(part, group, value[i]);
            }
        }
    }

    // Of the lane's row i.
    __device__ __forceinline__ float peak(int part, int i) const {
        return __shfl_sync(0xffffffffu, statistic[part], threadIdx.x % 32 / 4 + 8 * i);
    }

    __device__ __forceinline__ float total(int part, int i) const {
        return __shfl_sync(0xffffffffu, statistic[part], 16 + threadIdx.x % 32 / 4 + 8 * i);
    }

    __device__ __forceinline__ void add_to(Sum<kGroups>& sum) const {
        const float before[2] = {sum.peak[0], sum.peak[1]};
#pragma unroll
        for (int part = 0; part < kBatch; ++part) {
            sum.peak[0] = fmaxf(sum.peak[0], peak(part, 0));
            sum.peak[1] = fmaxf(sum.peak[1], peak(part, 1));
        }
        sum.rescale(sum.factor(0, before[0]), sum.factor(1, before[1]));
#pragma unroll
        for (int part = 0; part < kBatch; ++part) {
            const float low = sum.factor(0, peak(part, 0));  // once more: it needs no register meanwhile
            const float high = sum.factor(1, peak(part, 1));
            sum.total[0] += low * total(part, 0);
            sum.total[1] += high * total(part, 1);
            sum.add(low, high, value[part]);
        }
    }
};

}  // namespace mma
}  // namespace ddtree
