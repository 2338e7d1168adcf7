// The merge: rows whose tile was shared by several workers, and rows of dead nodes.
//
// A team of warps takes 16 rows of a tile and some of their columns, as records hold them: a lane has two
// columns of two rows. Each warp sums up every kWarps-th part in rising order, then the warps are summed up in
// order: it never changes. Time is latency, so a lane asks for all that it needs at once, mostly.
#pragma once

#include "attn_parts.cuh"

namespace ddtree {
namespace mma {

constexpr int kColumnGroups = kValueColumns / 8;

template <int kWarps_, int kGroups_, int kBatch_, int kTeams_, int kBlocks_>
struct Team {
    static constexpr int kWarps = kWarps_;
    static constexpr int kGroups = kGroups_;  // column groups at a time
    static constexpr int kBatch = kBatch_;    // parts under way in a warp
    static constexpr int kTeams = kTeams_;    // of a thread block
    static constexpr int kBlocks = kBlocks_;  // thread blocks of a multiprocessor
    static constexpr int kThreads = kTeams * kWarps * 32;
    static constexpr int kChunks = kColumnGroups / kGroups;
};

// Many parts, of few rows, more, and many.
using TeamForFewRows = Team<4, 2, 11, 1, 3>;
using TeamForMoreRows = Team<4, 4, 5, 1, 3>;
using TeamForManyParts = Team<2, 2, 9, 2, 4>;
using TeamForFewParts = Team<1, 4, 4, 4, 3>;
using TeamForTwoParts = Team<1, 4, 2, 8, 2>;

// What the warps of a team have found, row by row and lane by lane.
template <class Team>
struct TeamMemory {
    float peak[Team::kWarps][16];
    float total[Team::kWarps][16];
    float4 value[Team::kWarps][Team::kGroups][32];

    __device__ __forceinline__ void put(int warp, const Sum<Team::kGroups>& sum) {
        const int lane = threadIdx.x % 32;
        if (lane % 4 < 2) {
            const bool low = lane % 4 == 0;
            peak[warp][lane / 4 + (low ? 0 : 8)] = low ? sum.peak[0] : sum.peak[1];
            total[warp][lane / 4 + (low ? 0 : 8)] = low ? sum.total[0] : sum.total[1];
        }
#pragma unroll
        for (int group = 0; group < Team::kGroups; ++group) {
            value[warp][group][lane] = sum.value[group];
        }
    }

    // The sum over the warps, of one column group.
    __device__ __forceinline__ Sum<1> collect(int group) const {
        const int lane = threadIdx.x % 32;
        Sum<1> sum;
        sum.clear();
#pragma unroll
        for (int warp = 0; warp < Team::kWarps; ++warp) {
            sum.peak[0] = fmaxf(sum.peak[0], peak[warp][lane / 4]);
            sum.peak[1] = fmaxf(sum.peak[1], peak[warp][lane / 4 + 8]);
        }
#pragma unroll
        for (int warp = 0; warp < Team::kWarps; ++warp) {
            const float low = sum.factor(0, peak[warp][lane / 4]);
            const float high = sum.factor(1, peak[warp][lane / 4 + 8]);
            sum.total[0] += low * total[warp][lane / 4];
            sum.total[1] += high * total[warp][lane / 4 + 8];
            sum.add(low, high, {value[warp][group][lane]});
        }
        return sum;
    }
};

// The warps of a team.
template <class Team>
__device__ __forceinline__ void team_barrier() {
    if constexpr (Team::kWarps == 1) {
        __syncwarp();
    } else if constexpr (Team::kTeams == 1) {
        __syncthreads();
    } else {
        ptx::barrier(1 + threadIdx.x / (32 * Team::kWarps), 32 * Team::kWarps);
    }
}

// Where a block of 16 rows goes.
struct Rows {
    int64_t first;  // row of q and out
    int live;       // live rows from `first` on, in the request

    // A lane's columns of kGroups groups from `group` on; log-sum-exp with the first.
    template <int kGroups>
    __device__ __forceinline__ void write(const Problem& problem, int group, const Sum<kGroups>& sum) const {
        const int lane = threadIdx.x % 32;
        uint32_t* to = reinterpret_cast<uint32_t*>(problem.out + (first + lane / 4) * kValueColumns) + group * 4 +
                       lane % 4;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (lane / 4 + 8 * i >= live) {
                continue;
            }
            const float norm = sum.total[i] > 0.0f ? 1.0f / sum.total[i] : 0.0f;
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
                const float4 value = sum.value[j];
                to[i * 8 * kValueColumns / 2 + j * 4] = i == 0 ? ptx::pack_bf16(value.x * norm, value.y * norm)
                                                               : ptx::pack_bf16(value.z * norm, value.w * norm);
            }
            if (group == 0 && problem.lse != nullptr && lane % 4 == 0) {
                problem.lse[first + lane / 4 + 8 * i] = log_sum(sum.peak[i], sum.total[i]);
            }
        }
    }
};

// Called by the warps of a team: one chunk of the columns of a block of rows.
template <class Tile, class Team>
__device__ __forceinline__ void merge_chunk(const Problem& problem, const Parts<Tile>& parts, const Rows& rows,
                                            int chunk, TeamMemory<Team>& memory) {
    const int warp = threadIdx.x / 32 % Team::kWarps;
    Sum<Team::kGroups> sum;
    sum.clear();
#pragma unroll 1
    for (int part = warp; part < parts.count; part += Team::kWarps * Team::kBatch) {
        Batch<Team::kBatch, Team::kGroups> batch;
        batch.load(parts, part, Team::kWarps, chunk * Team::kGroups);
        batch.add_to(sum);
    }
    if constexpr (Team::kWarps == 1) {
        rows.write(problem, chunk * Team::kGroups, sum);
    } else {
        memory.put(warp, sum);
        team_barrier<Team>();
#pragma unroll
        for (int group = warp; group < Team::kGroups; group += Team::kWarps) {
            rows.write(problem, chunk * Team::kGroups + group, memory.collect(group));
        }
        team_barrier<Team>();  // the next chunk uses the same memory
    }
}

// Rows of dead nodes among 16, by a team.
template <class Team>
__device__ __forceinline__ void write_nothing(const Problem& problem, const Rows& rows, int all_rows) {
    const int thread = threadIdx.x % (32 * Team::kWarps);
#pragma unroll 1
    for (int row = max(rows.live, 0); row < min(all_rows, 16); ++row) {
        for (int i = thread; i < kValueColumns / 8; i += 32 * Team::kWarps) {
            reinterpret_cast<uint4*>(problem.out + (rows.first + row) * kValueColumns)[i] = make_uint4(0, 0, 0, 0);
        }
        if (problem.lse != nullptr && thread == 0) {
            problem.lse[rows.first + row] = minus_infinity();
        }
    }
}

// Every team takes `chunks` chunks of a block of rows; kChunks is a multiple of that.
template <class Tile, class Team>
__global__ void __launch_bounds__(Team::kThreads, Team::kBlocks)
    merge_kernel(const __grid_constant__ Problem problem, const int chunks) {
    __shared__ TeamMemory<Team> memory[Team::kTeams];
    ptx::let_dependents_start();
    const int team = threadIdx.x / 32 / Team::kWarps;
    const int item = blockIdx.x * Team::kTeams + team;
    const int pieces = Team::kChunks / chunks;
    const int row_blocks = blocks_of_request(problem.N, problem.Hq);
    const int block = item / pieces;  // of all requests
    const int first_chunk = item % pieces * chunks;
    const int request = block / row_blocks;
    if (request >= problem.B) {
        return;  // the whole team
    }
    const int all_rows = problem.N * problem.Hq;
    const int row = (block - request * row_blocks) * 16;  // of the request
    const int live = max(min(problem.node_count[request], problem.N), 0);
    const Rows rows = {static_cast<int64_t>(request) * all_rows + row, live * problem.Hq - row};
    ptx::wait_for_predecessor();
    if (first_chunk == 0) {
        write_nothing<Team>(problem, rows, all_rows - row);
    }
    if (rows.live <= 0) {
        return;
    }
    const Parts<Tile> parts(problem, problem.shares[block]);
    if (parts.count > 1) {
#pragma unroll 1
        for (int chunk = first_chunk; chunk < first_chunk + chunks; ++chunk) {
            merge_chunk<Tile, Team>(problem, parts, rows, chunk, memory[team]);
        }
    }
}

}  // namespace mma
}  // namespace ddtree
