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
    int nodes;       // of the tile's nodes: of the first row, and 256 times that of the second

    __device__ __forceinline__ void start(const Problem& problem, const Task& task, int first_row) {
        nodes = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = min(first_row + 8 * i, task.rows - 1);
            peak[i] = minus_infinity();
            total[i] = 0.0f;
            nodes += ((task.first_row + row) / problem.Hq - task.first_row / problem.Hq) << (8 * i);
        }
    }

    // From Tile::kPeaks, so that no register holds them from unit to unit.
    __device__ __forceinline__ void read_peaks(const float* peaks, int first_row) {
        peak[0] = peaks[first_row];
        peak[1] = peaks[first_row + 8];
    }

    __device__ __forceinline__ int node(int i) const { return nodes >> (8 * i) & 255; }
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
#pragma unroll 1
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

// Scales a thread's scores to log2; what a row does not see becomes -inf.
template <class Tile>
__device__ __forceinline__ void finish_scores(float (&score)[Tile::kKept][4], const RowPair& rows, float scale,
                                              bool masked, const unsigned char* memory,
                                              const Role<Tile>& role) {
    const uint32_t* visible = reinterpret_cast<const uint32_t*>(memory + Tile::kVisible);
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
                const uint32_t word = visible[rows.node(row) * Tile::kMaskWords + key / 32] >> (key % 32);
                score[index][2 * row] = (word & 1u) != 0 ? score[index][2 * row] : minus_infinity();
                score[index][2 * row + 1] = (word & 2u) != 0 ? score[index][2 * row + 1] : minus_infinity();
            }
        }
    }
}

// Weights of a thread's scores under the peaks of its rows.
template <class Tile>
struct Weights {
    uint32_t pair[2][Tile::kKept];  // [row], rounded to bf16
    float sum[2];                   // unrounded
    bool breaks_out;                // some score exceeds its peak by more than kHeadroom: peaks must rise

    static constexpr int kPieces = 2 * Tile::kKept;

    // Piece by piece, so that other instructions can stand between.
    __device__ __forceinline__ void make(int piece, const float (&score)[Tile::kKept][4],
                                         const RowPair& rows) {
        const int row = piece / Tile::kKept;
        const int index = piece % Tile::kKept;
        const float base = rows.peak[row] == minus_infinity() ? 0.0f : rows.peak[row];
        const float low = ptx::exp2(score[index][2 * row] - base);
        const float high = ptx::exp2(score[index][2 * row + 1] - base);
        const float limit = rows.peak[row] + kHeadroom;
        const bool over = fmaxf(score[index][2 * row], score[index][2 * row + 1]) > limit;
        breaks_out = piece == 0 ? over : breaks_out || over;
        sum[row] = index == 0 ? low + high : sum[row] + (low + high);
        pair[row][index] = ptx::pack_bf16(low, high);
    }

    // `half` 1 puts the unit beside the one with half 0.
    __device__ __forceinline__ void store(unsigned char* memory, int half, const Role<Tile>& role) const {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int tile_row = role.kept_row + role.lane / 4 + 8 * row;
#pragma unroll
            for (int index = 0; index < Tile::kKept; ++index) {
                const int key = role.kept_key + index * Role<Tile>::kKeptStep;
                *reinterpret_cast<uint32_t*>(memory + Tile::kWeights +
                                             chunk_offset(tile_row, half * (Tile::kKeys / 8) + key / 8) +
                                             key % 8 * 2) = pair[row][index];
            }
        }
    }
};

// Raises the peaks to the largest scores and makes the weights anew. Called by all threads, with barriers;
// returns the factors by which earlier sums of the rows shrink. The caller's barrier comes before anything
// else is written to the exchange area.
template <class Tile>
__device__ __forceinline__ const float* raise_peaks(const float (&score)[Tile::kKept][4], RowPair& rows,
                                                    Weights<Tile>& weights, unsigned char* memory,
                                                    const Role<Tile>& role) {
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
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const int tile_row = role.kept_row + role.lane / 4 + 8 * row;
        rows.peak[row] = peaks[tile_row];
        rows.total[row] *= rescale[tile_row];
    }
#pragma unroll
    for (int piece = 0; piece < Weights<Tile>::kPieces; ++piece) {
        weights.make(piece, score, rows);
    }
    return rescale;
}

}  // namespace mma
}  // namespace ddtree
