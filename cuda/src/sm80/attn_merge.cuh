// The merge: rows whose tile was shared by several workers, and rows of dead nodes.
#pragma once

#include "attn_line.cuh"
#include "attn_softmax.cuh"

namespace ddtree {
namespace mma {

// A partial result: peaks and totals of the rows, then their float sums.
template <class Tile>
__host__ __device__ constexpr int64_t record_floats() {
    return Tile::kRows * (2 + kValueColumns);
}

constexpr int kMergeThreads = 256;
constexpr int kMergeGroups = kMergeThreads * 4 / kValueColumns;  // each sums up every kMergeGroups-th part
constexpr int kMergeBatch = 8;                                    // parts in flight in a thread

// Sum of the parts in rising order within a group, then over the groups: the order never changes.
template <class Tile>
__device__ void merge_row(const Problem& problem, const plan::Sharers& sharers, int row, int64_t to) {
    const int parts = static_cast<int>(sharers.last - sharers.first) + 1;
    const auto record = [&](int part) {
        const int64_t worker = sharers.first + part;
        return problem.partial + plan::slot(worker, part == 0) * record_floats<Tile>();
    };
    __shared__ float shared_peak[kMergeThreads / 32];
    __shared__ float shared_sum[kMergeGroups][kValueColumns];
    __shared__ float shared_total[kMergeGroups];
    const int lane = threadIdx.x % 32;
    const int group = threadIdx.x / (kValueColumns / 4);
    const int column = threadIdx.x % (kValueColumns / 4) * 4;

    float peak = minus_infinity();
    for (int part = threadIdx.x; part < parts; part += kMergeThreads) {
        peak = fmaxf(peak, record(part)[row]);
    }
    for (int step = 16; step > 0; step /= 2) {
        peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, step));
    }
    if (lane == 0) {
        shared_peak[threadIdx.x / 32] = peak;
    }
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kMergeThreads / 32; ++warp) {
        peak = fmaxf(peak, shared_peak[warp]);
    }
    const bool empty = peak == minus_infinity();

    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float total = 0.0f;
    for (int first = group; first < parts; first += kMergeGroups * kMergeBatch) {
        float4 value[kMergeBatch];
        float part_peak[kMergeBatch];
        float part_total[kMergeBatch];
#pragma unroll
        for (int i = 0; i < kMergeBatch; ++i) {
            const int part = first + i * kMergeGroups;
            part_peak[i] = minus_infinity();
            part_total[i] = 0.0f;
            value[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (part < parts) {
                const float* from = record(part);
                part_peak[i] = from[row];
                part_total[i] = from[Tile::kRows + row];
                value[i] = *reinterpret_cast<const float4*>(from + 2 * Tile::kRows + row * kValueColumns +
                                                            column);
            }
        }
#pragma unroll
        for (int i = 0; i < kMergeBatch; ++i) {
            const float weight = empty ? 0.0f : ptx::exp2(part_peak[i] - peak);
            total += weight * part_total[i];
            sum.x += weight * value[i].x;
            sum.y += weight * value[i].y;
            sum.z += weight * value[i].z;
            sum.w += weight * value[i].w;
        }
    }
    *reinterpret_cast<float4*>(&shared_sum[group][column]) = sum;
    if (column == 0) {
        shared_total[group] = total;
    }
    __syncthreads();
    total = 0.0f;
#pragma unroll
    for (int i = 0; i < kMergeGroups; ++i) {
        total += shared_total[i];
    }
    const float norm = total > 0.0f ? 1.0f / total : 0.0f;
    const int pair = threadIdx.x * 2;
    float low = 0.0f;
    float high = 0.0f;
#pragma unroll
    for (int i = 0; i < kMergeGroups; ++i) {
        low += shared_sum[i][pair];
        high += shared_sum[i][pair + 1];
    }
    *reinterpret_cast<uint32_t*>(problem.out + to * kValueColumns + pair) =
        ptx::pack_bf16(low * norm, high * norm);
    if (problem.lse != nullptr && threadIdx.x == 0) {
        problem.lse[to] = total > 0.0f ? peak * 0.6931471805599453f + logf(total) : minus_infinity();
    }
    __syncthreads();  // the shared arrays serve the next row
}

// One block takes rows blockIdx, + gridDim, ...
template <class Tile>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(const __grid_constant__ Problem problem) {
    static_assert(kMergeThreads * 2 == kValueColumns, "a thread writes two columns");
    ptx::wait_for_predecessor();
    const int64_t rows_of_request = static_cast<int64_t>(problem.N) * problem.Hq;
    const int64_t rows = problem.B * rows_of_request;
    const plan::Line line = {problem.line[0], problem.line[1], problem.line[2]};
    for (int64_t to = blockIdx.x; to < rows; to += gridDim.x) {
        const int request = static_cast<int>(to / rows_of_request);
        const int row = static_cast<int>(to - request * rows_of_request);
        const int live = min(problem.node_count[request], problem.N);
        if (row >= live * problem.Hq) {
            reinterpret_cast<uint32_t*>(problem.out + to * kValueColumns)[threadIdx.x] = 0;
            if (problem.lse != nullptr && threadIdx.x == 0) {
                problem.lse[to] = minus_infinity();
            }
            continue;
        }
        const plan::Sharers sharers =
            plan::sharers(line, work_of<Tile>(problem, request), problem.line[kLineHeader + request],
                          row / Tile::kRows);
        if (sharers.last > sharers.first) {
            merge_row<Tile>(problem, sharers, row % Tile::kRows, to);
        }
    }
}

}  // namespace mma
}  // namespace ddtree
