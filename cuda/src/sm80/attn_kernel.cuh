// The kernel: a block walks over its share of the line, piece by piece, unit by unit.
#pragma once

#include "attn_line.cuh"
#include "attn_merge.cuh"
#include "attn_scores.cuh"
#include "attn_values.cuh"

namespace ddtree {
namespace mma {

// What a block keeps from unit to unit of a task.
template <class Tile>
struct State {
    RowPair rows;
    Output<Tile> output;
    HeldQuery<Tile> held;
    Pages<Tile> pages;
    float score[Tile::kKept][4];  // of the last unit, scaled
    Weights<Tile> weights;        // of the last unit
};

template <class Tile>
__device__ __forceinline__ uint32_t stage_of(uint32_t base, int unit) {
    return base + Tile::kStages + unit % Tile::kStageCount * Tile::kStageBytes;
}

// Query and first units on their way, state empty, held query in registers.
template <class Tile>
__device__ __forceinline__ void start_task(const Problem& problem, const Task& task, State<Tile>& state,
                                           unsigned char* memory, const Role<Tile>& role) {
    const uint32_t base = ptx::shared_address(memory);
#pragma unroll
    for (int unit = 0; unit < Tile::kAhead; ++unit) {
        state.pages.copier(problem, task, unit, stage_of<Tile>(base, unit))
            .template copy_planes<0, kPlanes>();
        ptx::commit_copies();
        state.pages.look_up(problem, task, memory, unit + 1);
    }
    if (threadIdx.x < Tile::kRows) {
        reinterpret_cast<float*>(memory + Tile::kPeaks)[threadIdx.x] = minus_infinity();
    }
    state.rows.start(problem, task, role.kept_row + role.lane / 4);
    state.output.clear();
    ptx::wait_for_copies<Tile::kAhead - 1>();
    __syncthreads();
    state.held.load(stage_of<Tile>(base, Tile::kStageCount - 1), role);
}

// Scores of `unit`, summed over this warp's columns and sent to the warps that keep them. Copies of a later
// unit are issued on the way.
template <class Tile, class Before>
__device__ __forceinline__ void score_unit(const Problem& problem, const Task& task, int unit,
                                           State<Tile>& state, unsigned char* memory, const Role<Tile>& role,
                                           Copier<Tile>& copier, const Before& before_sending) {
    const uint32_t base = ptx::shared_address(memory);
    const int later = unit + Tile::kAhead;
    copier = state.pages.copier(problem, task, later, stage_of<Tile>(base, later));
    state.pages.look_up(problem, task, memory, later + 1);
    if (is_masked<Tile>(task, unit)) {
        mark_visible<Tile>(problem, task, memory, unit);
        __syncthreads();
    }
    float score[2][Tile::kKeyBlocks][4];
    partial_scores<Tile>(score, base, stage_of<Tile>(base, unit), state.held, role, copier);
    if (!Tile::kPipelined) {
        ptx::commit_copies();
    }
    before_sending();
    send_scores<Tile>(state.score, score, base, role);
}

// The vote on the last unit's weights: are they final? If not, they and everything before are made so.
template <class Tile>
__device__ __forceinline__ void settle_weights(State<Tile>& state, int half, unsigned char* memory,
                                               const Role<Tile>& role) {
    if (__syncthreads_or(state.weights.breaks_out)) {
        const float* factors = raise_peaks<Tile>(state.score, state.rows, state.weights, memory, role);
        state.weights.store(memory, half, role);
        state.output.rescale(factors, role.lane);
        __syncthreads();
    }
    state.rows.total[0] += state.weights.sum[0];
    state.rows.total[1] += state.weights.sum[1];
}

// Two stages: scores, weights and values of a unit, then the next.
template <class Tile>
__device__ __forceinline__ void run_units(const Problem& problem, const Task& task, State<Tile>& state,
                                          unsigned char* memory, const Role<Tile>& role) {
    const uint32_t base = ptx::shared_address(memory);
    const int units = task.prefix_units + task.tail_units;
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
        ptx::wait_for_copies<0>();
        __syncthreads();  // the unit is there, and nobody reads the unit before it
        Copier<Tile> copier;
        score_unit<Tile>(problem, task, unit, state, memory, role, copier, [] {});
        group_barrier<Tile>(role);
        receive_scores<Tile>(state.score, memory, role);
        finish_scores<Tile>(state.score, state.rows, problem.scale_log2, is_masked<Tile>(task, unit), memory,
                            role);
#pragma unroll
        for (int piece = 0; piece < Weights<Tile>::kPieces; ++piece) {
            state.weights.make(piece, state.score, state.rows);
        }
        state.weights.store(memory, 0, role);
        settle_weights<Tile>(state, 0, memory, role);
        state.output.add(0, Operands<Tile>::kSteps, base + Tile::kWeights, 0, stage_of<Tile>(base, unit), role);
    }
}

// One turn of the pipeline: scores of `unit`, and the values of the unit before it in the gaps.
template <class Tile, bool kFirst>
__device__ __forceinline__ void run_turn(const Problem& problem, const Task& task, int unit,
                                         State<Tile>& state, unsigned char* memory, const Role<Tile>& role) {
    constexpr int kLast = Operands<Tile>::kSteps - 1;
    const uint32_t base = ptx::shared_address(memory);
    const uint32_t before = stage_of<Tile>(base, unit + Tile::kStageCount - 1);
    const int half = unit % 2;
    ptx::wait_for_copies<1>();
    if constexpr (kFirst) {
        __syncthreads();
    } else {
        settle_weights<Tile>(state, 1 - half, memory, role);  // its barrier also says that the unit is there
    }
    static_assert(kLast == 1, "two steps: one before the barrier of the exchange, one among the weights");
    Copier<Tile> copier;
    Operands<Tile> early;
    score_unit<Tile>(problem, task, unit, state, memory, role, copier, [&] {
        if constexpr (!kFirst) {
            early.load(0, base + Tile::kWeights, 1 - half, before, role);
        }
    });
#pragma unroll
    for (int row = 0; row < Tile::kRowBlocks; ++row) {
        if constexpr (!kFirst) {
            state.output.multiply(row, early);
        }
#pragma unroll
        for (int i = row * Tile::kSteps / Tile::kRowBlocks; i < (row + 1) * Tile::kSteps / Tile::kRowBlocks; ++i) {
            copier.copy(i);
        }
    }
    ptx::commit_copies();
    group_barrier<Tile>(role);
    Operands<Tile> operands;
    if constexpr (!kFirst) {
        operands.load(kLast, base + Tile::kWeights, 1 - half, before, role);
    }
    receive_scores<Tile>(state.score, memory, role);
    finish_scores<Tile>(state.score, state.rows, problem.scale_log2, is_masked<Tile>(task, unit), memory, role);
    state.rows.read_peaks(reinterpret_cast<const float*>(memory + Tile::kPeaks), role.kept_row + role.lane / 4);
    static_assert(Weights<Tile>::kPieces == Tile::kRowBlocks || !Tile::kPipelined, "one piece for each row block");
#pragma unroll
    for (int piece = 0; piece < Weights<Tile>::kPieces; ++piece) {
        state.weights.make(piece, state.score, state.rows);
        if constexpr (!kFirst) {
            state.output.multiply(piece, operands);
        }
    }
    state.weights.store(memory, half, role);
}

// Four stages: two units in work, two on their way.
template <class Tile>
__device__ __forceinline__ void run_pipeline(const Problem& problem, const Task& task, State<Tile>& state,
                                             unsigned char* memory, const Role<Tile>& role) {
    const uint32_t base = ptx::shared_address(memory);
    const int units = task.prefix_units + task.tail_units;
    if (units == 0) {
        return;
    }
    run_turn<Tile, true>(problem, task, 0, state, memory, role);
#pragma unroll 1
    for (int unit = 1; unit < units; ++unit) {
        run_turn<Tile, false>(problem, task, unit, state, memory, role);
    }
    settle_weights<Tile>(state, (units - 1) % 2, memory, role);
    state.output.add(0, Operands<Tile>::kSteps, base + Tile::kWeights, (units - 1) % 2,
                     stage_of<Tile>(base, units - 1), role);
}

template <class Tile>
__global__ void __launch_bounds__(kThreads, 1) attention_kernel(const __grid_constant__ Problem problem) {
    extern __shared__ __align__(1024) unsigned char memory[];
    ptx::let_dependents_start();
    const Role<Tile> role;
    walk_share<Tile>(problem, memory, [&](const Task&, const Task& task, const Pages<Tile>& pages) {
        __syncthreads();
        State<Tile> state;
        state.pages = pages;
        start_task<Tile>(problem, task, state, memory, role);
        if constexpr (Tile::kPipelined) {
            run_pipeline<Tile>(problem, task, state, memory, role);
        } else {
            run_units<Tile>(problem, task, state, memory, role);
        }
        ptx::wait_for_copies<0>();
        write_output<Tile>(problem, task, state.output, state.rows, memory, role);
    });
}

}  // namespace mma
}  // namespace ddtree
