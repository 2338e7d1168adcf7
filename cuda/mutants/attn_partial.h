// The first launch of attention: scores of a share of the keys, and their values added up. And what can go
// wrong with it.
#pragma once

#include <cmath>
#include <limits>

#include "attn_reads.h"

namespace mutants {
namespace {

constexpr int kShares = 2;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int kValuesPerLane = kMaxValueWidth / kThreads;

// What one share leaves of one row. `values` are Dv floats.
struct Partial {
    double* total;
    float* peak;
    float* values;

    static uint64_t bytes(int64_t rows, int Dv) {
        return static_cast<uint64_t>(rows) * kShares * (sizeof(double) + sizeof(float) * (1 + Dv));
    }

    __host__ __device__ Partial(void* workspace, int64_t rows, int64_t row, int share, int Dv) {
        double* totals = static_cast<double*>(workspace);
        float* peaks = reinterpret_cast<float*>(totals + rows * kShares);
        float* sums = peaks + rows * kShares;
        const int64_t index = row * kShares + share;
        total = totals + index;
        peak = peaks + index;
        values = sums + index * Dv;
    }
};

// What `value` is in the first thread, for all threads.
template <class T>
__device__ T of_first_thread(T value) {
    SHARED(T, shared, 1);
    __syncthreads();  // the one before is read
    if (threadIdx.x == 0) {
        shared[0] = value;
    }
    __syncthreads();
    return shared[0];
}

// Peak and sum over the first warp.
__device__ float warp_max(float value) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    return of_first_thread(value);
}

__device__ double warp_sum(double value) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, step);
    }
    return of_first_thread(value);
}

__global__ void partial_kernel(const ddtree_verify_attn_args args, void* workspace, const Switch mutant) {
    SHARED(float, weight, kTile);
    SHARED(int64_t, value_offset, kTile);
    if (mutant(device_merge_without_wait)) {
        grid_dependency_release();
        come_late(true, 3);
    }
    const int lane = threadIdx.x;
    const int share = blockIdx.x % kShares;
    const int64_t rows = static_cast<int64_t>(args.B) * args.N * args.Hq, index = blockIdx.x / kShares;
    const Row row = row_of(args, index, mutant);
    if (row.dead) {
        return;  // the whole block
    }
    int64_t asking = index;
    if (mutant(attn_query_of_first_head)) {
        asking = index - row.head;
    } else if (mutant(attn_query_of_first_node)) {
        asking = (static_cast<int64_t>(row.request) * args.N) * args.Hq + row.head;
    }
    const uint16_t* q = args.q + asking * args.Dk;
    const Pools pools = pools_of(args, row.head, mutant);

    float peak = mutant(attn_no_peak) ? 0.0f : kMinusInfinity;
    double total = 0.0;
    float sum[kValuesPerLane] = {};
    int keys = row.prefix + (mutant(attn_stray_bits_count) ? args.N : row.live);
    keys = mutant(attn_last_tile_dropped) && keys > kTile ? keys / kTile * kTile : keys;
    for (int tile = share; tile * kTile < keys; tile += kShares) {
        const bool scores = lane < kTile;
        const int slot = tile * kTile + lane;
        const bool real = scores && slot < keys && sees(args, row, slot, mutant);
        const bool hidden = scores && !real && slot < row.prefix + row.live;
        float score = kMinusInfinity;
        if (real || hidden) {
            const bool dense = mutant(attn_path_taken_as_dense) && slot >= row.prefix;
            const Place place = place_of(args, row, dense ? dense_slot(args, row, slot, mutant) : slot, mutant);
            const bool past = place.page * args.S + place.slot >= row.prefix + row.live;
            value_offset[lane] = place.offset(args.value_page_stride, args.value_slot_stride, mutant);
            if (real && !(mutant(attn_pool_row_against_length) && past)) {
                score = score_of(args, pools, q, place, mutant);
            }
            if (hidden && mutant(attn_hidden_is_minus_thousand)) {
                score = -1000.0f;
            } else if (hidden && mutant(attn_hidden_is_minus_thirty)) {
                score = -30.0f;
            }
        } else if (scores && mutant(attn_padding_joins_total) && slot >= keys) {
            score = 0.0f;
            value_offset[lane] = -1;
        }
        const float tile_peak = warp_max(score);
        const bool counts_hidden = mutant(attn_hidden_times_zero);
        if (tile_peak == kMinusInfinity && !counts_hidden) {
            continue;  // the whole block: nothing visible
        }
        if (!mutant(attn_no_peak)) {
            const float higher = fmaxf(peak, tile_peak);
            const bool keeps = higher == kMinusInfinity || mutant(attn_rescale_missing);
            const float rescale = keeps ? 1.0f : expf(peak - higher);
            peak = higher;
            total *= rescale;
            for (int i = 0; i < kValuesPerLane; ++i) {
                sum[i] *= rescale;
            }
        }
        const float mine = score == kMinusInfinity ? 0.0f : expf(score - peak);
        come_late(mutant(attn_barrier_missing_after_weights) && scores);
        if (scores) {
            weight[lane] = mine;
        }
        total += mutant(attn_total_of_rounded_weights) ? bf16_to_float(float_to_bf16(mine)) : mine;
        if (!mutant(attn_barrier_missing_after_weights)) {
            __syncthreads();
        }
        come_late(mutant(attn_barrier_missing_before_next_tile) && !scores);
        for (int k = 0; k < kTile; ++k) {
            const bool shown = counts_hidden ? tile * kTile + k < row.prefix + row.live : weight[k] > 0.0f;
            if (!shown || value_offset[k] < 0) {
                continue;
            }
            const uint16_t* value = pools.value + value_offset[k];
            for (int i = 0; i < kValuesPerLane; ++i) {
                const int element = lane + i * kThreads;
                if (element < args.Dv) {
                    sum[i] += weight[k] * bf16_to_float(value[element]);
                }
            }
        }
        if (!mutant(attn_barrier_missing_before_next_tile)) {
            __syncthreads();  // the next tile overwrites weights and offsets
        }
    }

    const double all = warp_sum(total);
    const Partial left(workspace, rows, index, share, args.Dv);
    if (mutant(attn_empty_share_unwritten) && all == 0.0) {
        return;  // the whole block
    }
    const bool adds = mutant(attn_workspace_added_to);
    if (lane == 0) {
        *left.peak = peak;
        *left.total = adds ? *left.total + all : all;
    }
    for (int i = 0; i < kValuesPerLane; ++i) {
        const int element = lane + i * kThreads;
        if (element < args.Dv) {
            left.values[element] = adds ? left.values[element] + sum[i] : sum[i];
        }
    }
}

}  // namespace
}  // namespace mutants
