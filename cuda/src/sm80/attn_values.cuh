// Output of a tile: weights times values, in float; each warp has all rows and 64 of the 512 columns.
#pragma once

#include "attn_output.cuh"
#include "attn_softmax.cuh"

namespace ddtree {
namespace mma {

// Operands of one step, 16 keys: weights of all rows, values of the warp's 64 columns.
template <class Tile>
struct Operands {
    static constexpr int kSteps = Tile::kKeys / 16;
    uint32_t weights[Tile::kRowBlocks][4];
    uint32_t values[4][4];  // [pair of 8-column blocks]

    __device__ __forceinline__ void load(int step, uint32_t shared_weights, int half, uint32_t unit,
                                         const Role<Tile>& role) {
        // Row (lane % 16) of a 16-row block: chunk c of it is at row + ((c ^ (row & 7)) << 4).
        const uint32_t row = role.lane % 16 * kPlaneRow;
        const uint32_t flip = ((role.lane / 16) ^ (role.lane % 8)) << 4;
        const uint32_t value_row = unit + role.warp * Tile::kKeyPlaneBytes + row + step * 16 * kPlaneRow;
        const uint32_t chunk = (half * Operands::kSteps + step) << 5;
        const uint32_t weight_row = shared_weights + row + (flip ^ chunk);
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            ptx::load_matrices_transposed(values[pair], value_row + (flip ^ (pair << 5)));
        }
#pragma unroll
        for (int block = 0; block < Tile::kRowBlocks; ++block) {
            ptx::load_matrices(weights[block], weight_row + block * 16 * kPlaneRow);
        }
    }
};

template <class Tile>
struct Output {
    float sum[Tile::kRowBlocks][8][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int row = 0; row < Tile::kRowBlocks; ++row) {
#pragma unroll
            for (int column = 0; column < 8; ++column) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sum[row][column][i] = 0.0f;
                }
            }
        }
    }

    __device__ __forceinline__ void rescale(const float* factors, int lane) {
#pragma unroll
        for (int row = 0; row < Tile::kRowBlocks; ++row) {
            const float low = factors[row * 16 + lane / 4];
            const float high = factors[row * 16 + lane / 4 + 8];
#pragma unroll
            for (int column = 0; column < 8; ++column) {
                sum[row][column][0] *= low;
                sum[row][column][1] *= low;
                sum[row][column][2] *= high;
                sum[row][column][3] *= high;
            }
        }
    }

    __device__ __forceinline__ void multiply(int row, const Operands<Tile>& operands) {
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            ptx::multiply_add(sum[row][2 * pair], operands.weights[row], operands.values[pair][0],
                              operands.values[pair][1]);
            ptx::multiply_add(sum[row][2 * pair + 1], operands.weights[row], operands.values[pair][2],
                              operands.values[pair][3]);
        }
    }

    // Steps [first, last) of a unit.
    __device__ __forceinline__ void add(int first, int last, uint32_t weights, int half, uint32_t unit,
                                        const Role<Tile>& role) {
#pragma unroll
        for (int step = first; step < last; ++step) {
            Operands<Tile> operands;
            operands.load(step, weights, half, unit, role);
#pragma unroll
            for (int row = 0; row < Tile::kRowBlocks; ++row) {
                multiply(row, operands);
            }
        }
    }
};

// Sums up the weights of the tile's rows over the warps. Writes log-sum-exp and bf16 output of a whole tile,
// or a record of a part of it. Nothing is in the stages.
template <class Tile>
__device__ __forceinline__ void write_output(const Problem& problem, const Task& task,
                                             const Output<Tile>& output, const RowPair& rows,
                                             unsigned char* memory, const Role<Tile>& role) {
    float* shared_total = reinterpret_cast<float*>(memory + Tile::kExchange);  // [kSharers, kRows]
    float* norm = shared_total + Tile::kSharers * Tile::kRows;                 // [kRows]
    const float* peaks = reinterpret_cast<const float*>(memory + Tile::kPeaks);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        float total = rows.total[row];
        total += __shfl_xor_sync(0xffffffffu, total, 1);
        total += __shfl_xor_sync(0xffffffffu, total, 2);
        if (role.lane % 4 == 0) {
            shared_total[role.sharer * Tile::kRows + role.kept_row + role.lane / 4 + 8 * row] = total;
        }
    }
    __syncthreads();
    if (threadIdx.x < Tile::kRows) {
        const int row = threadIdx.x;
        float total = 0.0f;
#pragma unroll
        for (int sharer = 0; sharer < Tile::kSharers; ++sharer) {
            total += shared_total[sharer * Tile::kRows + row];
        }
        norm[row] = total > 0.0f ? 1.0f / total : 0.0f;
        write_statistics<Tile>(problem, task, row, peaks[row], total);
    }
    if (task.record != nullptr) {
        float4* to = reinterpret_cast<float4*>(task.record + 2 * Tile::kRows) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < Tile::kRowBlocks * 8; ++i) {
            const float(&sum)[4] = output.sum[i / 8][i % 8];
            if (i / 8 * 16 < task.rows) {
                to[i * kThreads] = make_float4(sum[0], sum[1], sum[2], sum[3]);
            }
        }
        return;
    }
    __syncthreads();
    unsigned char* staged = memory + Tile::kStages;
#pragma unroll
    for (int row = 0; row < Tile::kRowBlocks * 2; ++row) {
        const int tile_row = row * 8 + role.lane / 4;
        const float scale = norm[tile_row];
        unsigned char* to = staged + tile_row * kOutputPitch + role.warp * 128 + role.lane % 4 * 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float(&sum)[4] = output.sum[row / 2][i];
            *reinterpret_cast<uint32_t*>(to + 16 * i) =
                ptx::pack_bf16(sum[row % 2 * 2] * scale, sum[row % 2 * 2 + 1] * scale);
        }
    }
    __syncthreads();
    write_rows(problem, task, staged);
}

}  // namespace mma
}  // namespace ddtree
