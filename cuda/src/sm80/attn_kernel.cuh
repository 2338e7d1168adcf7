// The kernel: a block walks over its share of the line, piece by piece, unit by unit.
#pragma once

#include "attn_line.cuh"
#include "attn_merge.cuh"
#include "attn_scores.cuh"
#include "attn_values.cuh"

namespace ddtree {
namespace mma {

// All units of one task. Two stages of keys: while one is worked on, the other is filled.
template <class Tile>
__device__ __forceinline__ void run_task(const Problem& problem, const Task& task, float* record,
                                         unsigned char* memory, const Role<Tile>& role) {
    const uint32_t base = ptx::shared_address(memory);
    const auto stage = [&](int unit) { return base + Tile::kStages + (unit & 1) * Tile::kStageBytes; };
    const int units = task.prefix_units + task.tail_units;

    Pages<Tile> pages;
    pages.look_up(problem, task, memory, 0);
    copy_query<Tile>(problem, task, base);
    pages.copier(problem, task, memory, 0, stage(0)).copy_all();
    pages.look_up(problem, task, memory, 1);
    if (threadIdx.x < Tile::kRows) {
        reinterpret_cast<float*>(memory + Tile::kPeaks)[threadIdx.x] = minus_infinity();
    }
    RowPair rows;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = min(role.kept_row + role.lane / 4 + 8 * i, task.rows - 1);
        rows.peak[i] = minus_infinity();
        rows.total[i] = 0.0f;
        rows.node[i] = (task.first_row + row) / problem.Hq - task.first_row / problem.Hq;
    }
    Output<Tile> output;
    output.clear();
    ptx::wait_for_copies();
    __syncthreads();
    HeldQuery<Tile> held;
    held.load(stage(1), role);

#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
        ptx::wait_for_copies();
        __syncthreads();  // the unit is there, and nobody reads the unit before it
        const Copier<Tile> next = pages.copier(problem, task, memory, unit + 1, stage(unit + 1));
        pages.look_up(problem, task, memory, unit + 2);
        const bool masked = is_masked<Tile>(task, unit);
        if (masked) {
            mark_visible<Tile>(problem, task, memory, unit);
            __syncthreads();
        }
        float kept[Tile::kKept][4];
        {
            float score[2][Tile::kKeyBlocks][4];
            partial_scores<Tile>(score, base, stage(unit), held, role, next);
            exchange_scores<Tile>(kept, score, memory, role);
        }
        if (weigh<Tile>(kept, rows, problem.scale_log2, masked, memory, role)) {
            output.rescale(rescale_factors<Tile>(memory), role.lane);
        }
        output.add(base + Tile::kWeights, stage(unit), role);
    }
    write_output<Tile>(problem, task, output, rows, record, memory, role);
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
        run_task<Tile>(problem, task, record, memory, role);
        __syncthreads();  // shared memory serves the next task
    }
}

}  // namespace mma
}  // namespace ddtree
