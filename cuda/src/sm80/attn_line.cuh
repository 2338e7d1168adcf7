// The line of attn_plan.h on the device, from the true lengths.
#pragma once

#include "attn_load.cuh"

namespace ddtree {
namespace mma {

// A request among others.
template <class Tile>
__device__ __forceinline__ plan::Request work_of(const Problem& problem, int request) {
    const int live = min(problem.node_count[request], problem.N);
    return plan::request(problem.prefix_len[request], live, problem.Hq, Tile::kRows, Tile::kKeys);
}

struct Cursor {
    plan::Line line;
    plan::Request work;  // of `request`, if there is one
    int request;    // the one that `begin` stands in, or B
    int64_t start;  // its start
    int64_t begin;  // what is left of the worker's share
    int64_t end;
};

// Where a block stands in its work, in shared memory while all registers hold sums.
struct Place {
    Cursor cursor;
    Task task;
};
static_assert(sizeof(Place) <= kPlaceBytes, "");

// Called by all threads of a block of kThreads; contains barriers when there is more than one request.
// `memory` needs kThreads + 2 int64.
template <class Tile>
__device__ Cursor find_share(const Problem& problem, int64_t* memory) {
    Cursor cursor;
    const int64_t worker = blockIdx.x;
    if (problem.B == 1) {
        const int live = min(problem.node_count[0], problem.N);
        const plan::Lone lone = plan::lone(problem.prefix_len[0], live, problem.Hq, Tile::kRows, Tile::kKeys,
                                           problem.workers);
        cursor.work = lone.request;
        cursor.line = lone.line;
        cursor.request = 0;
        cursor.start = 0;
    } else {
        const int each = (problem.B + kThreads - 1) / kThreads;
        const int first = min(static_cast<int>(threadIdx.x) * each, problem.B);
        const int last = min(first + each, problem.B);
        int64_t own = 0;
#pragma unroll 1
        for (int request = first; request < last; ++request) {
            own += plan::length(work_of<Tile>(problem, request));
        }
        int64_t through = own;  // through this thread
        memory[threadIdx.x] = through;
        __syncthreads();
#pragma unroll 1
        for (int step = 1; step < kThreads; step *= 2) {
            const int64_t other = static_cast<int>(threadIdx.x) >= step ? memory[threadIdx.x - step] : 0;
            __syncthreads();
            through += other;
            memory[threadIdx.x] = through;
            __syncthreads();
        }
        cursor.line = plan::line_of_many(memory[kThreads - 1], problem.workers);
        const int64_t begin = worker * cursor.line.share;
        if (threadIdx.x == 0) {
            memory[kThreads] = problem.B;
        }
        __syncthreads();
        int64_t start = through - own;
        const bool holds = start <= begin && begin < through;
        if (holds) {
#pragma unroll 1
            for (int request = first; request < last; ++request) {
                const int64_t next = start + plan::length(work_of<Tile>(problem, request));
                if (start <= begin && begin < next) {
                    memory[kThreads] = request;
                    memory[kThreads + 1] = start;
                }
                start = next;
            }
        }
        __syncthreads();
        cursor.request = static_cast<int>(memory[kThreads]);
        cursor.start = memory[kThreads + 1];
        __syncthreads();
        if (cursor.request < problem.B) {
            cursor.work = work_of<Tile>(problem, cursor.request);
        }
    }
    cursor.begin = worker * cursor.line.share;
    cursor.end = cursor.begin + cursor.line.share;
    return cursor;
}

// A partial result: peaks and totals of the rows, then their float sums, as fragments of four: rows r and
// r + 8, columns c and c + 1, in the order in which threads hold them (attn_layout.h).
template <class Tile>
__host__ __device__ constexpr int64_t record_floats() {
    return Tile::kRows * (2 + kValueColumns);
}

// The task of a piece of the cursor's request.
template <class Tile>
__device__ __forceinline__ Task task_of(const Problem& problem, const Cursor& cursor, const plan::Piece& piece) {
    const plan::Request& work = cursor.work;
    Task task;
    task.request = cursor.request;
    task.live = min(problem.node_count[cursor.request], problem.N);
    task.prefix = problem.prefix_len[cursor.request];
    task.first_row = static_cast<int>(piece.tile) * work.rows;
    task.rows = min(task.live * problem.Hq - task.first_row, work.rows);
    task.first_unit = static_cast<int>(plan::smaller(piece.first, work.prefix_units));
    task.prefix_units = static_cast<int>(plan::smaller(piece.last, work.prefix_units)) - task.first_unit;
    task.first_tail = 0;
    task.tail_units = 0;
    task.tail_nodes = 0;
    task.record = piece.whole ? nullptr
                              : problem.partial + plan::slot(blockIdx.x, piece.opens) * record_floats<Tile>();
    return task;
}

// Tells the merge who shares the tile of a piece that opens it.
__device__ __forceinline__ void write_shares(const Problem& problem, const Cursor& cursor, const Task& task,
                                             int64_t tile) {
    const int block = static_cast<int>(threadIdx.x) - 32;  // the first warp writes the place
    if (block >= 0 && block * 16 < task.rows) {
        const int64_t parts = plan::sharers(cursor.line, cursor.work, cursor.start, tile, blockIdx.x);
        problem.shares[static_cast<int64_t>(task.request) * blocks_of_request(problem.N, problem.Hq) +
                       task.first_row / 16 + block] = {static_cast<int32_t>(blockIdx.x),
                                                       static_cast<int16_t>(parts),
                                                       static_cast<int16_t>(block)};
    }
}

// Calls run(task, shared_task, pages) for every piece of this block's share. The query is on its way, and the
// pages of the first unit are known. The task lies in shared memory too, past the next barrier.
template <class Tile, class Run>
__device__ __forceinline__ void walk_share(const Problem& problem, unsigned char* memory, const Run& run) {
    Cursor cursor = find_share<Tile>(problem, reinterpret_cast<int64_t*>(memory));
    while (cursor.begin < cursor.end && cursor.request < problem.B) {
        const plan::Request work = cursor.work;
        const int64_t next_start = cursor.start + work.tiles * cursor.line.pitch(work);
        if (cursor.begin >= next_start) {
            cursor.start = next_start;
            if (++cursor.request < problem.B) {
                cursor.work = work_of<Tile>(problem, cursor.request);
            }
            continue;
        }
        const plan::Piece piece =
            plan::piece_at(cursor.line, work, cursor.start, cursor.begin, cursor.end);
        cursor.begin = piece.next;
        if (piece.first >= piece.last) {
            continue;
        }
        Task task = task_of<Tile>(problem, cursor, piece);
        Pages<Tile> pages;
        if (task.prefix_units > 0) {
            pages.look_up(problem, task, memory, 0);  // before the query, whose copies take a while
        }
        copy_query<Tile>(problem, task, ptx::shared_address(memory));
        if (piece.last > work.prefix_units) {
            task.tail_nodes = list_tail<Tile>(problem, task, memory);
            const int64_t actual = plan::ceil_div(task.tail_nodes, Tile::kKeys);
            const int64_t first = plan::larger(piece.first - work.prefix_units, 0);
            const int64_t last = piece.last - work.prefix_units;
            task.first_tail = static_cast<int>(plan::tail_unit(first, work.tail_units, actual));
            task.tail_units =
                static_cast<int>(plan::tail_unit(last, work.tail_units, actual)) - task.first_tail;
        }
        if (task.prefix_units == 0) {
            pages.look_up(problem, task, memory, 0);
        }
        if (piece.opens) {
            write_shares(problem, cursor, task, piece.tile);
        }
        Place& place = *reinterpret_cast<Place*>(memory + Tile::kPlace);
        if (threadIdx.x == 0) {
            place = {cursor, task};
        }
        run(task, place.task, pages);
        __syncthreads();  // shared memory serves the next piece
        cursor = place.cursor;
    }
}

}  // namespace mma
}  // namespace ddtree
