// The line of attn_plan.h on the device, from the true lengths.
#pragma once

#include "attn_load.cuh"

namespace ddtree {
namespace mma {

template <class Tile>
__device__ __forceinline__ plan::Request work_of(const Problem& problem, int request) {
    return plan::request(problem.prefix_len[request], min(problem.node_count[request], problem.N), problem.Hq,
                         Tile::kRows, Tile::kKeys);
}

struct Cursor {
    plan::Line line;
    int request;    // the one that `begin` stands in, or B
    int64_t start;  // its start
    int64_t begin;  // the worker's share
    int64_t end;
};

// problem.line: [0] share, [1] lead, [2] fixed pitch, [3 + b] start of request b. Written by the first block.
constexpr int kLineHeader = 3;

// Called by all threads of a block of kThreads; contains barriers when there is more than one request.
// `memory` needs kThreads + 2 int64.
template <class Tile>
__device__ Cursor find_share(const Problem& problem, int64_t* memory) {
    Cursor cursor;
    const int64_t worker = blockIdx.x;
    if (problem.B == 1) {
        cursor.line = plan::line_of_one(work_of<Tile>(problem, 0), problem.workers);
        cursor.request = 0;
        cursor.start = 0;
        if (worker == 0 && threadIdx.x == 0) {
            problem.line[kLineHeader] = 0;
        }
    } else {
        const int each = (problem.B + kThreads - 1) / kThreads;
        const int first = min(static_cast<int>(threadIdx.x) * each, problem.B);
        const int last = min(first + each, problem.B);
        int64_t own = 0;
        for (int request = first; request < last; ++request) {
            own += plan::length(work_of<Tile>(problem, request));
        }
        int64_t through = own;  // through this thread
        memory[threadIdx.x] = through;
        __syncthreads();
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
        if (holds || worker == 0) {
            for (int request = first; request < last; ++request) {
                const int64_t next = start + plan::length(work_of<Tile>(problem, request));
                if (start <= begin && begin < next) {
                    memory[kThreads] = request;
                    memory[kThreads + 1] = start;
                }
                if (worker == 0) {
                    problem.line[kLineHeader + request] = start;
                }
                start = next;
            }
        }
        __syncthreads();
        cursor.request = static_cast<int>(memory[kThreads]);
        cursor.start = memory[kThreads + 1];
        __syncthreads();
    }
    cursor.begin = worker * cursor.line.share;
    cursor.end = cursor.begin + cursor.line.share;
    if (worker == 0 && threadIdx.x == 0) {
        problem.line[0] = cursor.line.share;
        problem.line[1] = cursor.line.lead;
        problem.line[2] = cursor.line.fixed_pitch;
    }
    return cursor;
}

}  // namespace mma
}  // namespace ddtree
