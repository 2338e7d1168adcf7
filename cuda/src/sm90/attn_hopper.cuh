// The kernel for sm_90a: tiles of 64 rows, units of 64 keys, two warpgroups.
//
// Scores: each warpgroup has all rows and half of the unit's keys. Values: all rows, half of the columns.
// A thread holds the same two rows in both, so peaks and factors never leave it. Products run while the
// threads issue copies and barriers; only the softmax is not covered.
#pragma once

#include "sm80/attn_line.cuh"
#include "sm80/attn_merge.cuh"
#include "sm80/attn_softmax.cuh"
#include "sm90/wgmma.cuh"

namespace ddtree {
namespace mma {

struct HopperTile {
    static constexpr int kRows = 64;
    static constexpr int kKeys = 64;
    static constexpr int kHeldPlanes = 0;
    static constexpr int kQueryPlanes = kPlanes;
    static constexpr int kStageCount = 2;
    static constexpr int kCopyRows = kKeys / 32;
    static constexpr int kSteps = kCopyRows * kPlanes;  // copies of a thread
    static constexpr int kMaskWords = kKeys / 32;
    static constexpr int kKept = 4;     // blocks of 8 keys of a thread's scores
    static constexpr int kSharers = 2;  // warpgroups

    static __device__ int fragment(int block, int group) { return layout::wgmma_fragment(block, group); }

    static constexpr int kQueryPlaneBytes = kRows * kPlaneRow;
    static constexpr int kKeyPlaneBytes = kKeys * kPlaneRow;
    static constexpr int kStageBytes = kPlanes * kKeyPlaneBytes;
    static constexpr int kStages = kQueryPlanes * kQueryPlaneBytes;
    static constexpr int kWeights = kStages + kStageCount * kStageBytes;
    static constexpr int kExchange = kWeights;  // statistics, while no weights are in it
    static constexpr int kPeaks = kWeights + kQueryPlaneBytes;
    static constexpr int kPlace = kPeaks + kRows * 4;
    static constexpr int kVisible = kPlace + kPlaceBytes;
    static constexpr int kTail = kVisible + (kRows + 1) * kMaskWords * 4;
    static constexpr int kBytes = kTail + (kMostTailNodes + 1) * 2;
    static_assert(kBytes <= 227 * 1024 && kWeights % 1024 == 0 && kStages % 1024 == 0, "");
};

template <>
struct Role<HopperTile> {
    int lane = threadIdx.x % 32;
    int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // known to be the same in a warp
    int kept_row = threadIdx.x / 32 % 4 * 16;
    int kept_key = group * 32 + lane % 4 * 2;
    int sharer = group;

    static constexpr int kKeptStep = 8;
};

// Score steps behind the values of the unit before: they run while its last readers are waited for.
constexpr int kScoresAhead = 12;

// Planes of the first unit that its scores start with, while the others are on their way.
constexpr int kPlanesAhead = 4;

// Starts steps [kFirst, kLast) of the scores of a unit: 64 rows by this warpgroup's 32 keys. Between them go
// the copies of a later unit, if there is one.
template <int kFirst, int kLast, bool kCopies>
__device__ __forceinline__ void start_scores(float (&score)[16], uint32_t query, uint32_t unit, int group,
                                             const Copier<HopperTile>* copier) {
    using Tile = HopperTile;
    const uint64_t a = wgmma::describe(query, 16, 8 * kPlaneRow);
    const uint64_t b = wgmma::describe(unit + group * 32 * kPlaneRow, 16, 8 * kPlaneRow);
    wgmma::fence();
#pragma unroll
    for (int step = kFirst; step < kLast; ++step) {
        wgmma::multiply_64x32(score, a + (step / 4 * Tile::kQueryPlaneBytes + step % 4 * 32) / 16,
                              b + (step / 4 * Tile::kKeyPlaneBytes + step % 4 * 32) / 16, step > 0);
        if constexpr (kCopies) {
            const int done = (step - kFirst) * Tile::kSteps / (kLast - kFirst);
            const int next = (step + 1 - kFirst) * Tile::kSteps / (kLast - kFirst);
#pragma unroll
            for (int i = done; i < next; ++i) {
                copier->copy(i);
            }
        }
    }
    wgmma::commit();
}

// Starts output += weights * values: 64 rows by this warpgroup's 256 columns.
__device__ __forceinline__ void start_values(float (&output)[128], uint32_t weights, uint32_t unit, int group) {
    using Tile = HopperTile;
    const uint64_t a = wgmma::describe(weights, 16, 8 * kPlaneRow);
    const uint64_t b =
        wgmma::describe(unit + group * 4 * Tile::kKeyPlaneBytes, Tile::kKeyPlaneBytes, 8 * kPlaneRow);
    wgmma::fence();
#pragma unroll
    for (int step = 0; step < Tile::kKeys / 16; ++step) {
        wgmma::multiply_64x256(output, a + step * 32 / 16, b + step * 16 * kPlaneRow / 16);
    }
    wgmma::commit();
}

// The weights of a unit are not final: raises the peaks, makes them anew, rescales what came before.
__device__ __forceinline__ void redo_weights(const float (&score)[4][4], RowPair& rows,
                                             Weights<HopperTile>& weights, float (&output)[128], bool first,
                                             unsigned char* memory, const Role<HopperTile>& role) {
    using Tile = HopperTile;
    const float* factors = raise_peaks<Tile>(score, rows, weights, memory, role);
    if (!first) {
        const float low = factors[role.kept_row + role.lane / 4];
        const float high = factors[role.kept_row + role.lane / 4 + 8];
#pragma unroll
        for (int i = 0; i < 128; i += 4) {
            output[i] *= low;
            output[i + 1] *= low;
            output[i + 2] *= high;
            output[i + 3] *= high;
        }
    }
    __syncthreads();  // the statistics lie where the weights go
    weights.store(memory, 0, role);
    wgmma::publish();
    __syncthreads();
}

// Like write_output() of sm80/attn_values.cuh, for this kernel's layout.
__device__ __forceinline__ void write_tile(const Problem& problem, const Task& task, const float (&output)[128],
                                           const RowPair& rows, unsigned char* memory,
                                           const Role<HopperTile>& role) {
    using Tile = HopperTile;
    float* shared_total = reinterpret_cast<float*>(memory + Tile::kExchange);
    const int row = role.kept_row + role.lane / 4;  // and 8 further
    float total[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        total[i] = rows.total[i];
        total[i] += __shfl_xor_sync(0xffffffffu, total[i], 1);
        total[i] += __shfl_xor_sync(0xffffffffu, total[i], 2);
        if (role.lane % 4 == 0) {
            shared_total[role.group * Tile::kRows + row + 8 * i] = total[i];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        total[i] = shared_total[row + 8 * i] + shared_total[Tile::kRows + row + 8 * i];
        if (role.group == 0 && role.lane % 4 == 0) {
            write_statistics<Tile>(problem, task, row + 8 * i, rows.peak[i], total[i]);
        }
    }
    if (task.record != nullptr) {
        if (role.kept_row >= task.rows) {
            return;  // a warp without live rows
        }
        float4* to = reinterpret_cast<float4*>(task.record + 2 * Tile::kRows) + threadIdx.x / 32 * 1024 + role.lane;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            to[i * 32] = make_float4(output[4 * i], output[4 * i + 1], output[4 * i + 2], output[4 * i + 3]);
        }
        return;
    }
    unsigned char* staged = memory + Tile::kStages;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float norm = total[i] > 0.0f ? 1.0f / total[i] : 0.0f;
        unsigned char* to = staged + (row + 8 * i) * kOutputPitch + role.group * 512 + role.lane % 4 * 4;
#pragma unroll
        for (int block = 0; block < 32; ++block) {
            *reinterpret_cast<uint32_t*>(to + 16 * block) =
                ptx::pack_bf16(output[4 * block + 2 * i] * norm, output[4 * block + 2 * i + 1] * norm);
        }
    }
    __syncthreads();
    write_rows(problem, task, staged);
}

__device__ __forceinline__ void run_hopper_task(const Problem& problem, const Task& task, Pages<HopperTile>& pages,
                                                unsigned char* memory, const Role<HopperTile>& role) {
    using Tile = HopperTile;
    const uint32_t base = ptx::shared_address(memory);
    const auto stage = [&](int unit) { return base + Tile::kStages + unit % 2 * Tile::kStageBytes; };
    const int units = task.prefix_units + task.tail_units;

    const Copier<Tile> first = pages.copier(problem, task, 0, stage(0));
    first.copy_planes<0, kPlanesAhead>();
    ptx::commit_copies();
    first.copy_planes<kPlanesAhead, kPlanes>();
    ptx::commit_copies();
    pages.look_up(problem, task, memory, 1);
    pages.copier(problem, task, 1, stage(1)).copy_planes<0, kPlanes>();
    ptx::commit_copies();
    pages.look_up(problem, task, memory, 2);
    if (threadIdx.x < Tile::kRows) {
        reinterpret_cast<float*>(memory + Tile::kPeaks)[threadIdx.x] = minus_infinity();
    }
    RowPair rows;
    rows.start(problem, task, role.kept_row + role.lane / 4);
    float output[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) {
        output[i] = 0.0f;
    }
    float score[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        score[i] = 0.0f;
    }
    wgmma::complete(output);
    wgmma::complete(score);
    ptx::wait_for_copies<2>();
    wgmma::publish();
    __syncthreads();
    start_scores<0, kPlanesAhead * 4, false>(score, base, stage(0), role.group, nullptr);
    ptx::wait_for_copies<1>();
    wgmma::publish();
    __syncthreads();
    start_scores<kPlanesAhead * 4, kPlanes * 4, false>(score, base, stage(0), role.group, nullptr);
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
        const bool masked = is_masked<Tile>(task, unit);
        if (masked) {
            mark_visible<Tile>(problem, task, memory, unit);
            __syncthreads();
        }
        wgmma::wait<0>();
        wgmma::complete(score);
        wgmma::complete(output);
        float scaled[4][4];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            scaled[i / 4][i % 4] = score[i];
        }
        finish_scores<Tile>(scaled, rows, problem.scale_log2, masked, memory, role);
        Weights<Tile> weights;
        bool redo = unit == 0;  // no peaks yet
        if (!redo) {
#pragma unroll
            for (int piece = 0; piece < Weights<Tile>::kPieces; ++piece) {
                weights.make(piece, scaled, rows);
            }
            weights.store(memory, 0, role);
            wgmma::publish();
            redo = __syncthreads_or(weights.breaks_out);
        }
        if (redo) {
            redo_weights(scaled, rows, weights, output, unit == 0, memory, role);
        }
        rows.total[0] += weights.sum[0];
        rows.total[1] += weights.sum[1];
        start_values(output, base + Tile::kWeights, stage(unit), role.group);
        if (unit + 1 < units) {
            ptx::wait_for_copies<0>();
            wgmma::publish();
            __syncthreads();  // the next unit is there
            start_scores<0, kScoresAhead, false>(score, base, stage(unit + 1), role.group, nullptr);
            const Copier<Tile> copier = pages.copier(problem, task, unit + 2, stage(unit));
            wgmma::wait<1>();
            __syncthreads();  // nobody reads this unit any more
            start_scores<kScoresAhead, kPlanes * 4, true>(score, base, stage(unit + 1), role.group, &copier);
            ptx::commit_copies();
            pages.look_up(problem, task, memory, unit + 3);
        }
    }
    wgmma::wait<0>();
    wgmma::complete(output);
    ptx::wait_for_copies<0>();
    __syncthreads();  // the last weights and values have been read
    write_tile(problem, task, output, rows, memory, role);
}

__global__ void __launch_bounds__(kThreads, 1) hopper_kernel(const __grid_constant__ Problem problem) {
    extern __shared__ __align__(1024) unsigned char memory[];
    ptx::let_dependents_start();
    const Role<HopperTile> role;
    walk_share<HopperTile>(problem, memory, [&](const Task& task, const Task&, Pages<HopperTile>& pages) {
        run_hopper_task(problem, task, pages, memory, role);
    });
}

}  // namespace mma
}  // namespace ddtree
