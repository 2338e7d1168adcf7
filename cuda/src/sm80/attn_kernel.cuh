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
    state.pages.look_up(problem, task, memory, 0);
    copy_query<Tile>(problem, task, base);
#pragma unroll
    for (int unit = 0; unit < Tile::kAhead; ++unit) {
        state.pages.copier(problem, task, unit, stage_of<Tile>(base, unit)).copy_all();
        ptx::commit_copies();
        state.pages.look_up(problem, task, memory, unit + 1);
    }
    if (threadIdx.x < Tile::kRows) {
        reinterpret_cast<float*>(memory + Tile::kPeaks)[threadIdx.x] = minus_infinity();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = min(role.kept_row + role.lane / 4 + 8 * i, task.rows - 1);
        state.rows.peak[i] = minus_infinity();
        state.rows.total[i] = 0.0f;
        state.rows.node[i] = (task.first_row + row) / problem.Hq - task.first_row / problem.Hq;
    }
    state.output.clear();
    ptx::wait_for_copies<Tile::kAhead - 1>();
    __syncthreads();
    state.held.load(stage_of<Tile>(base, Tile::kStageCount - 1), role);
}

// Scores of `unit`, summed over this warp's columns and sent to the warps that keep them. Copies of a later
// unit are issued on the way.
template <class Tile>
__device__ __forceinline__ void score_unit(const Problem& problem, const Task& task, int unit,
                                           State<Tile>& state, unsigned char* memory, const Role<Tile>& role) {
    const uint32_t base = ptx::shared_address(memory);
    const int later = unit + Tile::kAhead;
    const Copier<Tile> copier = state.pages.copier(problem, task, later, stage_of<Tile>(base, later));
    state.pages.look_up(problem, task, memory, later + 1);
    if (is_masked<Tile>(task, unit)) {
        mark_visible<Tile>(problem, task, memory, unit);
        __syncthreads();
    }
    float score[2][Tile::kKeyBlocks][4];
    partial_scores<Tile>(score, base, stage_of<Tile>(base, unit), state.held, role, copier);
    ptx::commit_copies();
    send_scores<Tile>(state.score, score, memory, role);
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
        score_unit<Tile>(problem, task, unit, state, memory, role);
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
    score_unit<Tile>(problem, task, unit, state, memory, role);
    if constexpr (!kFirst) {
        state.output.add(0, kLast, base + Tile::kWeights, 1 - half, before, role);
    }
    group_barrier<Tile>(role);
    Operands<Tile> operands;
    if constexpr (!kFirst) {
        operands.load(kLast, base + Tile::kWeights, 1 - half, before, role);
    }
    receive_scores<Tile>(state.score, memory, role);
    finish_scores<Tile>(state.score, state.rows, problem.scale_log2, is_masked<Tile>(task, unit), memory, role);
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
    Cursor cursor = find_share<Tile>(problem, reinterpret_cast<int64_t*>(memory));
    int64_t position = cursor.begin;
    while (position < cursor.end && cursor.request < problem.B) {
        const plan::Request work = work_of<Tile>(problem, cursor.request);
        const int64_t next_start = cursor.start + work.tiles * cursor.line.pitch(work);
        if (position >= next_start) {
            cursor.start = next_start;
            ++cursor.request;
            continue;
        }
        const plan::Piece piece = plan::piece_at(cursor.line, work, cursor.start, position, cursor.end);
        position = piece.next;
        if (piece.first >= piece.last) {
            continue;
        }
        Task task;
        task.request = cursor.request;
        task.live = min(problem.node_count[cursor.request], problem.N);
        task.prefix = problem.prefix_len[cursor.request];
        task.first_row = static_cast<int>(piece.tile) * Tile::kRows;
        task.rows = min(task.live * problem.Hq - task.first_row, Tile::kRows);
        task.first_unit = static_cast<int>(plan::smaller(piece.first, work.prefix_units));
        task.prefix_units =
            static_cast<int>(plan::smaller(piece.last, work.prefix_units)) - task.first_unit;
        task.first_tail = 0;
        task.tail_units = 0;
        task.tail_nodes = 0;
        if (piece.last > work.prefix_units) {
            task.tail_nodes = list_tail<Tile>(problem, task, memory);
            const int64_t actual = plan::ceil_div(task.tail_nodes, Tile::kKeys);
            const int64_t first = plan::larger(piece.first - work.prefix_units, 0);
            task.first_tail = static_cast<int>(plan::tail_unit(first, work.tail_units, actual));
            task.tail_units = static_cast<int>(plan::tail_unit(piece.last - work.prefix_units,
                                                               work.tail_units, actual)) -
                              task.first_tail;
        }
        float* record = piece.whole ? nullptr
                                    : problem.partial + plan::slot(blockIdx.x, piece.opens) *
                                                            record_floats<Tile>();
        State<Tile> state;
        start_task<Tile>(problem, task, state, memory, role);
        if constexpr (Tile::kPipelined) {
            run_pipeline<Tile>(problem, task, state, memory, role);
        } else {
            run_units<Tile>(problem, task, state, memory, role);
        }
        ptx::wait_for_copies<0>();
        write_output<Tile>(problem, task, state.output, state.rows, record, memory, role);
        __syncthreads();  // shared memory serves the next task
    }
}

}  // namespace mma
}  // namespace ddtree
