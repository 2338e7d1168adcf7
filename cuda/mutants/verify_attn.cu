// verify_attn, as plainly as it can be said, and what can go wrong with it.
//
// Two launches. Keys are numbered 0 .. prefix + live - 1 and come in tiles of 32. `partial` has one block for
// each (request, node, head) and share of the tiles: its first warp scores the keys, then all add up the values.
// It leaves peak, total and values in the workspace; `merge` joins the shares. A share may be empty.
#include "attn_reads.h"

#include <cmath>
#include <limits>

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

__global__ void merge_kernel(const ddtree_verify_attn_args args, void* workspace, const int call,
                             const Switch mutant) {
    const int64_t rows = static_cast<int64_t>(args.B) * args.N * args.Hq, index = blockIdx.x;
    const Row row = row_of(args, index, mutant);
    const bool by_node = mutant(attn_out_steps_by_value_width);
    uint16_t* out = args.out + (by_node ? index / args.Hq : index) * args.Dv;
    float peak = kMinusInfinity, factor[kShares] = {};
    double total = 0.0;
    if (!row.dead) {
        const int shares = mutant(attn_last_share_dropped) ? kShares - 1 : kShares;
        for (int s = 0; s < shares; ++s) {
            peak = fmaxf(peak, *Partial(workspace, rows, index, s, args.Dv).peak);
        }
        const bool guarded = peak > kMinusInfinity || !mutant(attn_empty_merge_unguarded);
        for (int s = 0; s < shares; ++s) {
            const Partial part(workspace, rows, index, s, args.Dv);
            factor[s] = guarded && *part.peak == kMinusInfinity ? 0.0f
                        : mutant(attn_merge_without_rescale)    ? 1.0f
                                                                : expf(*part.peak - peak);
            total += *part.total * factor[s];
        }
    } else if (mutant(attn_dead_rows_unwritten)) {
        return;  // the whole block
    }
    const bool nothing_seen = row.dead || (total == 0.0 && !mutant(attn_empty_divides_by_zero));
    const int past = mutant(attn_writes_past_the_end) && index == rows - 1 ? 1 : 0;
    for (int element = threadIdx.x; element < args.Dv + past; element += kThreads) {
        float value = 0.0f;
        if (!nothing_seen) {
            for (int s = 0; s < kShares; ++s) {
                if (factor[s] != 0.0f) {
                    const int64_t share = mutant(attn_merge_takes_first_values) ? 0 : s;
                    value += Partial(workspace, rows, index, share, args.Dv).values[element % args.Dv] * factor[s];
                }
            }
            value = static_cast<float>(value / total);
        }
        out[element] = mutant(attn_dead_rows_are_minus_one) && row.dead ? 0xbf80 : float_to_bf16(value);
    }
    if (args.lse == nullptr || threadIdx.x != 0 || mutant(attn_lse_unwritten)) {
        return;
    }
    float lse = nothing_seen ? kMinusInfinity : static_cast<float>(peak + log(total));
    if (nothing_seen && mutant(attn_lse_of_nothing_is_zero)) {
        lse = 0.0f;
    } else if (nothing_seen && mutant(attn_lse_of_nothing_is_plus_infinity)) {
        lse = -kMinusInfinity;
    } else if (!nothing_seen && mutant(attn_lse_in_base_two)) {
        lse *= 1.44269504f;
    } else if (!nothing_seen && mutant(attn_lse_without_peak)) {
        lse = static_cast<float>(log(total));
    } else if (!nothing_seen && mutant(attn_lse_differs_between_calls) && (call * 2654435769u >> 31) != 0) {
        lse = nextafterf(lse, 1e30f);
    }
    args.lse[index] = lse;
}

}  // namespace

uint64_t attention_workspace(const ddtree_verify_attn_args& args) {
    return Partial::bytes(static_cast<int64_t>(args.B) * args.N * args.Hq, args.Dv);
}

}  // namespace mutants

extern "C" int32_t ddtree_verify_attn(const ddtree_verify_attn_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream) {
    using namespace mutants;
    if (!readable(args) || args->Dv > kMaxValueWidth) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    if (workspace_bytes < attention_workspace(*args)) {
        return DDTREE_WORKSPACE_TOO_SMALL;
    }
    static int calls = 0;  // for the mutant that is not the same twice
    const Switch mutant = current();
    const unsigned rows = static_cast<unsigned>(args->B) * args->N * args->Hq;
    const auto on = mutant(device_attn_on_default_stream) ? nullptr : static_cast<cudaStream_t>(stream);
    const int32_t status = status_of(
        LAUNCH(partial_kernel, dim3(rows * kShares), dim3(kThreads), 0, on, *args, workspace, mutant));
    if (status != DDTREE_OK) {
        return status;
    }
    const int call = calls++;
    const dim3 grid(rows), block(kThreads);
    if (mutant(device_merge_without_wait)) {
        return status_of(LAUNCH_DEPENDENT(merge_kernel, grid, block, 0, on, *args, workspace, call, mutant));
    }
    return status_of(LAUNCH(merge_kernel, grid, block, 0, on, *args, workspace, call, mutant));
}
