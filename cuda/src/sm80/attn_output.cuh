// Ways out of a tile, and where the merge finds what it reads.
#pragma once

#include "attn_line.cuh"
#include "attn_softmax.cuh"

namespace ddtree {
namespace mma {

// Log-sum-exp of a row in natural units, from its peak in log2 and the sum of its weights.
__device__ __forceinline__ float log_sum(float peak, float total) {
    return total > 0.0f ? peak * 0.6931471805599453f + logf(total) : minus_infinity();
}

template <class Tile>
__device__ __forceinline__ void write_statistics(const Problem& problem, const Task& task, int row, float peak,
                                                 float total) {
    if (task.record != nullptr) {
        task.record[row] = peak;
        task.record[Tile::kRows + row] = total;
    } else if (problem.lse != nullptr && row < task.rows) {
        problem.lse[(static_cast<int64_t>(task.request) * problem.N * problem.Hq + task.first_row) + row] =
            log_sum(peak, total);
    }
}

// A whole tile's bf16 output leaves through shared memory, in 16-byte pieces.
constexpr int kOutputPitch = kValueColumns * 2 + 16;  // bytes; rows that meet in a store differ in banks

__device__ __forceinline__ void write_rows(const Problem& problem, const Task& task,
                                           const unsigned char* staged) {
    const int64_t first = static_cast<int64_t>(task.request) * problem.N * problem.Hq + task.first_row;
    uint16_t* to = problem.out + first * kValueColumns;
#pragma unroll 4
    for (int i = threadIdx.x; i < task.rows * (kValueColumns / 8); i += kThreads) {
        const int row = i / (kValueColumns / 8);
        const int piece = i % (kValueColumns / 8);
        *reinterpret_cast<uint4*>(to + row * kValueColumns + piece * 8) =
            *reinterpret_cast<const uint4*>(staged + row * kOutputPitch + piece * 16);
    }
}

}  // namespace mma
}  // namespace ddtree
