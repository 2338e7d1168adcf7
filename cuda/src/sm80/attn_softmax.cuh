// Online softmax of one unit: scores become weights, and the vote that makes them final.
//
// A row's peak is not its largest score but a value that no score exceeds by more than kHeadroom (in log2):
// weights stay below 2^kHeadroom, and the accumulated output is rescaled only when a score breaks out, which
// after the first units is rare. All threads vote on that with the barrier that publishes the weights.
#pragma once

#include "attn_load.cuh"

namespace ddtree {
namespace mma {

constexpr float kHeadroom = 8.0f;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

// Two rows of a thread: kept_row + lane / 4 and 8 further.
struct RowPair {
    float peak[2];   // scaled scores, log2
    float total[2];  // sum of the weights of this thread's keys, unrounded
    int node[2];     // of the tile's nodes
};

// Is some key of the unit invisible to some row?
template <class Tile>
__device__ __forceinline__ bool is_masked(const Task& task, int unit) {
    return unit >= task.prefix_units || (task.first_unit + unit + 1) * Tile::kKeys > task.prefix;
}

// Bits of the unit's keys for every node of the tile, to Tile::kVisible. Called by all threads.
template <class Tile>
__device__ __forceinline__ void mark_visible(const Problem& problem, const Task& task, unsigned char* memory,
                                             int unit) {
    uint32_t* visible = reinterpret_cast<uint32_t*>(memory + Tile::kVisible);
    const uint16_t* list = reinterpret_cast<const uint16_t*>(memory + Tile::kTail);
    const int lane = threadIdx.x % 32;
    const int first_node = task.first_row / problem.Hq;
    const int nodes = (task.first_row + task.rows - 1) / problem.Hq - first_node + 1;
    for (int item = threadIdx.x / 32; item < nodes * Tile::kMaskWords; item += kWarps) {
        const int key = item % Tile::kMaskWords * 32 + lane;
        bool sees = false;
        if (unit < task.prefix_units) {
            sees = (task.first_unit + unit) * Tile::kKeys + key < task.prefix;
        } else {
            const int index = (task.first_tail + unit - task.prefix_units) * Tile::kKeys + key;
            if (index < task.tail_nodes) {
                const int64_t row = static_cast<int64_t>(task.request) * problem.N + first_node +
                                    item / Tile::kMaskWords;
                const int node = list[index];
                sees = (problem.tree_mask[row * problem.W + node / 32] >> (node % 32) & 1u) != 0;
            }
        }
        const uint32_t word = __ballot_sync(0xffffffffu, sees);
        if (lane == 0) {
            visible[item] = word;
        }
    }
}

// Weights of a thread's scores under the peaks of its rows, as bf16 to Tile::kWeights; sum[] gets the
// unrounded sums of the two rows.
template <class Tile>
__device__ __forceinline__ void store_weights(const float (&score)[Tile::kKept][4], const float (&peak)[2],
                                              unsigned char* memory, const Role<Tile>& role,
                                              float (&sum)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const float base = peak[row] == minus_infinity() ? 0.0f : peak[row];
        const int tile_row = role.kept_row + role.lane / 4 + 8 * row;
        sum[row] = 0.0f;
#pragma unroll
        for (int index = 0; index < Tile::kKept; ++index) {
            const float low = ptx::exp2(score[index][2 * row] - base);
            const float high = ptx::exp2(score[index][2 * row + 1] - base);
            sum[row] += low + high;
            const int key = role.kept_key + index * Role<Tile>::kKeptStep;
            *reinterpret_cast<uint32_t*>(memory + Tile::kWeights + chunk_offset(tile_row, key / 8) +
                                         key % 8 * 2) = ptx::pack_bf16(low, high);
        }
    }
}

// Raises the peaks to the largest scores and makes the weights anew. `output` of all warps is rescaled.
template <class Tile>
__device__ __forceinline__ void find_peaks(const float (&score)[Tile::kKept][4], RowPair& rows,
                                           unsigned char* memory, const Role<Tile>& role) {
    float* shared_peak = reinterpret_cast<float*>(memory + Tile::kExchange);  // [kSharers, kRows]
    float* rescale = shared_peak + Tile::kSharers * Tile::kRows;              // [kRows]
    float* peaks = reinterpret_cast<float*>(memory + Tile::kPeaks);           // [kRows]
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        float largest = minus_infinity();
#pragma unroll
        for (int index = 0; index < Tile::kKept; ++index) {
            largest = fmaxf(largest, fmaxf(score[index][2 * row], score[index][2 * row + 1]));
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        if (role.lane % 4 == 0) {
            shared_peak[role.sharer * Tile::kRows + role.kept_row + role.lane / 4 + 8 * row] = largest;
        }
    }
    __syncthreads();
    if (threadIdx.x < Tile::kRows) {
        const float before = peaks[threadIdx.x];
        float after = before;
#pragma unroll
        for (int sharer = 0; sharer < Tile::kSharers; ++sharer) {
            after = fmaxf(after, shared_peak[sharer * Tile::kRows + threadIdx.x]);
        }
        rescale[threadIdx.x] = after == minus_infinity() ? 1.0f : ptx::exp2(before - after);
        peaks[threadIdx.x] = after;
    }
    __syncthreads();
    float sum[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const int tile_row = role.kept_row + role.lane / 4 + 8 * row;
        rows.peak[row] = peaks[tile_row];
        rows.total[row] *= rescale[tile_row];
    }
    store_weights<Tile>(score, rows.peak, memory, role, sum);
    rows.total[0] += sum[0];
    rows.total[1] += sum[1];
    __syncthreads();
}

// Turns summed scores into weights. Returns true if the output must be rescaled by the factors at
// rescale_factors(). Barriers inside; after it all weights of the unit are in shared memory.
template <class Tile>
__device__ __forceinline__ bool weigh(float (&score)[Tile::kKept][4], RowPair& rows, float scale, bool masked,
                                      unsigned char* memory, const Role<Tile>& role) {
    const uint32_t* visible = reinterpret_cast<const uint32_t*>(memory + Tile::kVisible);
    bool breaks_out = false;
#pragma unroll
    for (int index = 0; index < Tile::kKept; ++index) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            score[index][i] *= scale;
        }
    }
    if (masked) {
#pragma unroll
        for (int index = 0; index < Tile::kKept; ++index) {
            const int key = role.kept_key + index * Role<Tile>::kKeptStep;
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const uint32_t word = visible[rows.node[row] * Tile::kMaskWords + key / 32] >> (key % 32);
                score[index][2 * row] = (word & 1u) != 0 ? score[index][2 * row] : minus_infinity();
                score[index][2 * row + 1] = (word & 2u) != 0 ? score[index][2 * row + 1] : minus_infinity();
            }
        }
    }
#pragma unroll
    for (int index = 0; index < Tile::kKept; ++index) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            breaks_out |= score[index][i] > rows.peak[i / 2] + kHeadroom;
        }
    }
    float sum[2];
    store_weights<Tile>(score, rows.peak, memory, role, sum);
    if (__syncthreads_or(breaks_out)) {
        find_peaks<Tile>(score, rows, memory, role);
        return true;
    }
    rows.total[0] += sum[0];
    rows.total[1] += sum[1];
    return false;
}

template <class Tile>
__device__ __forceinline__ const float* rescale_factors(const unsigned char* memory) {
    return reinterpret_cast<const float*>(memory + Tile::kExchange) + Tile::kSharers * Tile::kRows;
}

}  // namespace mma
}  // namespace ddtree
