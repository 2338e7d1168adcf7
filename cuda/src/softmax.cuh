// Online softmax of verify_attn: what one warp has seen of a row so far, and the merge of the warps.
#pragma once

#include <limits>

#include "attention.cuh"

namespace ddtree {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int kValuesPerLane = kMaxValueWidth / kWarp;

// Largest of the lanes' values: floats in their order are ints once negative ones are turned round.
__device__ __forceinline__ float warp_max(float value) {
    const int bits = __float_as_int(value);
    const int ordered = bits < 0 ? bits ^ 0x7fffffff : bits;
    const int largest = __reduce_max_sync(kFullWarp, ordered);
    return __int_as_float(largest < 0 ? largest ^ 0x7fffffff : largest);
}

__device__ __forceinline__ double warp_sum(double value) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, step);
    }
    return value;
}

// One lane's part of one row's state. With w = exp(score - peak), `total` is the sum of w over the keys
// that this lane scored, in double, so that its error does not grow with the prefix. `sum` is the sum of
// w * value over all keys of the warp, for the elements lane, lane + 32, ... of the value.
struct RowState {
    float peak = kMinusInfinity;
    double total = 0.0;
    float sum[kValuesPerLane] = {};

    // Takes in this lane's score, -inf for no key; at least one lane has a key. Returns its weight w.
    __device__ float add_score(float score) {
        const float new_peak = fmaxf(peak, warp_max(score));  // finite
        const float weight = expf(score - new_peak);
        const float rescale = expf(peak - new_peak);
        peak = new_peak;
        total = total * rescale + weight;
        if (rescale != 1.0f) {
#pragma unroll
            for (int i = 0; i < kValuesPerLane; ++i) {
                sum[i] *= rescale;
            }
        }
        return weight;
    }
};

// Merges one row's state over the warps and writes it. Called by all threads of the block. A warp that saw
// nothing has peak -inf, hence factor 0; a row of which no warp saw anything is 0 and -inf.
template <int kHeads>
__device__ __forceinline__ void merge_and_write(const AttentionMemory<kHeads>& shared, const RowState& state,
                                                int Dv, uint16_t* out, float* lse) {
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int warps = blockDim.x / kWarp;
    const double total_of_warp = warp_sum(state.total);
    if (lane == 0) {
        shared.warp_peak[warp] = state.peak;
        shared.warp_total[warp] = total_of_warp;
    }
#pragma unroll
    for (int i = 0; i < kValuesPerLane; ++i) {
        const int element = lane + i * kWarp;
        if (element < Dv) {
            shared.warp_value[warp * Dv + element] = state.sum[i];
        }
    }
    __syncthreads();

    float peak = kMinusInfinity;
    for (int w = 0; w < warps; ++w) {
        peak = fmaxf(peak, shared.warp_peak[w]);
    }
    const bool empty = peak == kMinusInfinity;
    float factor[kMaxWarps];
    double total = 0.0;
#pragma unroll
    for (int w = 0; w < kMaxWarps; ++w) {
        factor[w] = w < warps && !empty ? expf(shared.warp_peak[w] - peak) : 0.0f;
        total += w < warps ? shared.warp_total[w] * factor[w] : 0.0;
    }
    const float norm = empty ? 0.0f : static_cast<float>(1.0 / total);
    for (int element = threadIdx.x; element < Dv; element += blockDim.x) {
        float merged = 0.0f;
#pragma unroll
        for (int w = 0; w < kMaxWarps; ++w) {
            merged += w < warps ? shared.warp_value[w * Dv + element] * factor[w] : 0.0f;
        }
        out[element] = float_to_bf16(merged * norm);
    }
    if (lse != nullptr && threadIdx.x == 0) {
        *lse = empty ? kMinusInfinity : static_cast<float>(peak + log(total));
    }
    __syncthreads();  // the merge area serves the next row
}

}  // namespace ddtree
