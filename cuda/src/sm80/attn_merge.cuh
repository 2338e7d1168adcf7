// The merge: rows whose tile was shared by several workers, and rows of dead nodes.
//
// A team of warps takes 16 rows of a tile and some of their columns, as records hold them: a lane has two
// columns of two rows. Each warp sums up every kWarps-th part in rising order, then the warps are summed up in
// order: it never changes. Time is latency, so a lane keeps 8 to 12 loads under way.
#pragma once

#include "attn_parts.cuh"

namespace ddtree {
namespace mma {

constexpr int kMergeWarps = 8;  // of a block
constexpr int kColumnGroups = kValueColumns / 8;

template <int kWarps_, int kGroups_, int kBatch_, int kMostParts_>
struct Team {
    static constexpr int kWarps = kWarps_;
    static constexpr int kGroups = kGroups_;          // column groups at a time
    static constexpr int kBatch = kBatch_;            // parts under way in a warp
    static constexpr int kMostParts = kMostParts_;    // whose statistics fit into shared memory
    static constexpr int kChunks = kColumnGroups / kGroups;
    static constexpr int kRound = kWarps > 1 ? 4 : 1;  // groups that the warps sum up at a time
};

using TeamForManyParts = Team<8, 4, 3, 160>;
using TeamForSomeParts = Team<8, 8, 1, 160>;
using TeamForFewParts = Team<1, 4, 2, 8>;

// A lane's two columns of `group`, of its rows below `live_rows`. `first` is the index of row 0 of the tile.
template <class Tile>
__device__ __forceinline__ void write_group(const Problem& problem, const Parts<Tile>& parts, int64_t first,
                                            int live_rows, int group, float4 sum, const RowStatistics& all) {
    uint32_t* to = reinterpret_cast<uint32_t*>(problem.out + (first + parts.row) * kValueColumns) + group * 4 +
                   threadIdx.x % 4;
    if (parts.row < live_rows) {
        const float norm = all.total[0] > 0.0f ? 1.0f / all.total[0] : 0.0f;
        to[0] = ptx::pack_bf16(sum.x * norm, sum.y * norm);
    }
    if (parts.row + 8 < live_rows) {
        const float norm = all.total[1] > 0.0f ? 1.0f / all.total[1] : 0.0f;
        to[8 * kValueColumns / 2] = ptx::pack_bf16(sum.z * norm, sum.w * norm);
    }
}

// The memory of a team: statistics of the parts, sums of its warps.
template <class Team>
struct MergeMemory {
    float table[Team::kMostParts * 32];
    float4 sum[Team::kWarps == 1 ? 1 : Team::kWarps * Team::kRound * 32];
};

template <class Team>
__device__ __forceinline__ void team_barrier() {
    if constexpr (Team::kWarps == 1) {
        __syncwarp();
    } else {
        static_assert(Team::kWarps == kMergeWarps, "the team is the block");
        __syncthreads();
    }
}

// Loads the values of parts warp + kWarps * (first ..), as many as a batch holds; zeros past the last.
template <class Tile, class Team>
__device__ __forceinline__ void load_batch(const Parts<Tile>& parts, int first, int group,
                                           float4 (&value)[Team::kBatch][Team::kGroups]) {
#pragma unroll
    for (int i = 0; i < Team::kBatch; ++i) {
        if (first + i * Team::kWarps < parts.count) {
            parts.load(first + i * Team::kWarps, group, value[i]);
        } else {
#pragma unroll
            for (int j = 0; j < Team::kGroups; ++j) {
                value[i][j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
    }
}

// Called by the warps of a team: chunks [first_chunk, last_chunk) of the columns of a block of rows.
template <class Tile, class Team>
__device__ __forceinline__ void merge_block(const Problem& problem, const Parts<Tile>& parts, int64_t first,
                                            int live_rows, int first_chunk, int last_chunk,
                                            MergeMemory<Team>& memory) {
    constexpr int kGroups = Team::kGroups;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32 % Team::kWarps;
    float4 value[Team::kBatch][kGroups];
    load_batch<Tile, Team>(parts, warp, first_chunk * kGroups, value);  // while the statistics are made
    const StatisticsTable<Tile> table(parts, memory.table, Team::kMostParts);
    table.fill(threadIdx.x % (32 * Team::kWarps), 32 * Team::kWarps);
    team_barrier<Team>();
    const RowStatistics all = statistics_of(table);
    if (problem.lse != nullptr && first_chunk == 0 && warp == 0 && lane % 4 < 2) {
        const int row = parts.row + lane % 4 * 8;
        if (row < live_rows) {
            problem.lse[first + row] = lane % 4 == 0 ? log_sum(all.peak[0], all.total[0])
                                                     : log_sum(all.peak[1], all.total[1]);
        }
    }
#pragma unroll 1
    for (int chunk = first_chunk; chunk < last_chunk; ++chunk) {
        if (chunk > first_chunk) {
            load_batch<Tile, Team>(parts, warp, chunk * kGroups, value);
        }
        float4 sum[kGroups] = {};
#pragma unroll 1
        for (int part = warp; part < parts.count; part += Team::kWarps * Team::kBatch) {
            if (part > warp) {
                load_batch<Tile, Team>(parts, part, chunk * kGroups, value);
            }
#pragma unroll
            for (int i = 0; i < Team::kBatch; ++i) {
                const int this_part = min(part + i * Team::kWarps, parts.count - 1);  // past the last: zeros
                const float low = all.factor(0, table.at(this_part, 0, 0));
                const float high = all.factor(1, table.at(this_part, 0, 1));
#pragma unroll
                for (int j = 0; j < kGroups; ++j) {
                    sum[j].x += low * value[i][j].x;
                    sum[j].y += low * value[i][j].y;
                    sum[j].z += high * value[i][j].z;
                    sum[j].w += high * value[i][j].w;
                }
            }
        }
        if constexpr (Team::kWarps == 1) {
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
                write_group(problem, parts, first, live_rows, chunk * kGroups + j, sum[j], all);
            }
        } else {
#pragma unroll
            for (int round = 0; round < kGroups; round += Team::kRound) {
#pragma unroll
                for (int j = 0; j < Team::kRound; ++j) {
                    memory.sum[(warp * Team::kRound + j) * 32 + lane] = sum[round + j];
                }
                __syncthreads();
                if (warp < Team::kRound) {
                    float4 merged = memory.sum[warp * 32 + lane];
#pragma unroll
                    for (int other = 1; other < Team::kWarps; ++other) {
                        const float4 more = memory.sum[(other * Team::kRound + warp) * 32 + lane];
                        merged.x += more.x;
                        merged.y += more.y;
                        merged.z += more.z;
                        merged.w += more.w;
                    }
                    write_group(problem, parts, first, live_rows, chunk * kGroups + round + warp, merged, all);
                }
                __syncthreads();  // the next round uses the same memory
            }
        }
    }
    team_barrier<Team>();  // the next block of rows uses the same table
}

// Blocks of 16 rows of a request, padded to whole tiles.
template <class Tile>
__host__ __device__ inline int64_t blocks_of_request(int N, int Hq) {
    return plan::ceil_div(static_cast<int64_t>(N) * Hq, Tile::kRows) * (Tile::kRows / 16);
}

// A team takes `chunks` chunks of a block of rows at a time; kChunks is a multiple of that.
template <class Tile, class Team>
__global__ void __launch_bounds__(kMergeWarps * 32, 2)
    merge_kernel(const __grid_constant__ Problem problem, const int chunks) {
    constexpr int kTeams = kMergeWarps / Team::kWarps;
    __shared__ MergeMemory<Team> memory[kTeams];
    const int pieces = Team::kChunks / chunks;
    const int64_t request_items = blocks_of_request<Tile>(problem.N, problem.Hq) * pieces;
    const int64_t items = problem.B * request_items;
    plan::Line line = {};
    plan::Request work = {};
    int live = 0;
    if (problem.B == 1) {
        work = work_of<Tile>(problem, 0);
        live = max(min(problem.node_count[0], problem.N), 0);
        line = plan::line_of_one(work, problem.workers);
    }
    ptx::wait_for_predecessor();
    if (problem.B > 1) {
        line = {problem.line[0], problem.line[1], problem.line[2]};
    }
    const int team = threadIdx.x / 32 / Team::kWarps;
    for (int64_t item = blockIdx.x * kTeams + team; item < items; item += gridDim.x * kTeams) {
        const int request = problem.B == 1 ? 0 : static_cast<int>(item / request_items);
        const int of_request = static_cast<int>(item - request * request_items);
        const int first_chunk = of_request % pieces * chunks;
        const int block = of_request / pieces % (Tile::kRows / 16);
        const int tile = of_request / pieces / (Tile::kRows / 16);
        int64_t start = 0;
        if (problem.B > 1) {
            work = work_of<Tile>(problem, request);
            live = max(min(problem.node_count[request], problem.N), 0);
            start = problem.line[kLineHeader + request];
        }
        const int live_rows = live * problem.Hq - tile * Tile::kRows;  // of this tile and on
        const int all_rows = problem.N * problem.Hq - tile * Tile::kRows;
        const int64_t first = static_cast<int64_t>(request) * problem.N * problem.Hq + tile * Tile::kRows;
        const int thread = threadIdx.x % (32 * Team::kWarps);
        if (first_chunk == 0) {
#pragma unroll 1
            for (int row = max(live_rows, block * 16); row < min(all_rows, block * 16 + 16); ++row) {
                for (int i = thread; i < kValueColumns / 8; i += 32 * Team::kWarps) {
                    reinterpret_cast<uint4*>(problem.out + (first + row) * kValueColumns)[i] =
                        make_uint4(0, 0, 0, 0);
                }
                if (problem.lse != nullptr && thread == 0) {
                    problem.lse[first + row] = minus_infinity();
                }
            }
        }
        if (block * 16 >= live_rows) {
            continue;
        }
        const plan::Sharers sharers = plan::sharers(line, work, start, tile);
        if (sharers.last > sharers.first) {
            merge_block<Tile, Team>(problem, Parts<Tile>(problem, sharers, block), first, live_rows,
                                     first_chunk, first_chunk + chunks, memory[team]);
        }
    }
}

}  // namespace mma
}  // namespace ddtree
