// Host side of a tensor-core attention: how much workspace, launch.
#pragma once

#include "attn_line.cuh"
#include "attn_merge.cuh"
#include "checks.cuh"

namespace ddtree {
namespace mma {

// What the host knows of the current device; 0 where a query fails.
inline int attribute(cudaDeviceAttr which) {
    int device = 0;
    int value = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
        cudaGetLastError();  // reported by the caller; the next launch must not find it
        return 0;
    }
    return value;
}

template <class Tile>
int workers_for(const ddtree_verify_attn_args& args, int shares) {
    const int most = shares > 0 ? shares : attribute(cudaDevAttrMultiProcessorCount);
    return plan::useful_workers(args.B, args.N, args.Hq, static_cast<int64_t>(args.M) * args.S, Tile::kRows,
                                Tile::kKeys, most);
}

inline int64_t row_blocks_of(const ddtree_verify_attn_args& args) {
    return static_cast<int64_t>(args.B) * blocks_of_request(args.N, args.Hq);
}

inline int64_t shares_bytes(const ddtree_verify_attn_args& args) {
    return plan::ceil_div(row_blocks_of(args) * static_cast<int64_t>(sizeof(Shares)), 256) * 256;
}

template <class Tile>
uint64_t bytes_for(const ddtree_verify_attn_args& args, int shares) {
    return shares_bytes(args) + 2ull * workers_for<Tile>(args, shares) * record_floats<Tile>() * sizeof(float);
}

// Thread blocks of a merge that the multiprocessors hold at once, in teams.
template <class Team>
int64_t teams_at_once() {
    return static_cast<int64_t>(attribute(cudaDevAttrMultiProcessorCount)) * Team::kBlocks * Team::kTeams;
}

template <class Tile, class Team>
cudaError_t launch_merge(const Problem& problem, int64_t row_blocks, cudaStream_t stream) {
    int pieces = 1;
    while (pieces < Team::kChunks && row_blocks * pieces * 2 <= teams_at_once<Team>()) {
        pieces *= 2;
    }
    const int64_t blocks = plan::ceil_div(row_blocks * pieces, Team::kTeams);
    return LAUNCH_DEPENDENT((merge_kernel<Tile, Team>), dim3(static_cast<unsigned>(blocks)), dim3(Team::kThreads), 0,
                            stream, problem, Team::kChunks / pieces);
}

// Few rows are cut into many parts, many rows into few or none. Of the teams for many parts, the one with most
// warps on a row that still takes all columns at once.
template <class Tile>
cudaError_t launch_merge(const Problem& problem, int64_t row_blocks, cudaStream_t stream) {
    const int64_t parts = plan::ceil_div(problem.workers, plan::ceil_div(row_blocks * 16, Tile::kRows));
    if (parts <= 4) {
        return launch_merge<Tile, TeamForTwoParts>(problem, row_blocks, stream);
    }
    if (parts <= 8) {
        return launch_merge<Tile, TeamForFewParts>(problem, row_blocks, stream);
    }
    if (row_blocks * TeamForFewRows::kChunks <= teams_at_once<TeamForFewRows>()) {
        return launch_merge<Tile, TeamForFewRows>(problem, row_blocks, stream);
    }
    return row_blocks * TeamForMoreRows::kChunks <= teams_at_once<TeamForMoreRows>()
               ? launch_merge<Tile, TeamForMoreRows>(problem, row_blocks, stream)
               : launch_merge<Tile, TeamForManyParts>(problem, row_blocks, stream);
}

template <class Tile>
int32_t run(void (*kernel)(Problem), const ddtree_verify_attn_args& args, int shares, void* workspace,
            uint64_t workspace_bytes, void* stream_handle) {
    const cudaStream_t stream = static_cast<cudaStream_t>(stream_handle);
    const int workers = workers_for<Tile>(args, shares);
    if (workspace == nullptr || workspace_bytes < bytes_for<Tile>(args, shares)) {
        return DDTREE_WORKSPACE_TOO_SMALL;
    }
    if (reinterpret_cast<uintptr_t>(workspace) % 16 != 0) {
        return DDTREE_INVALID_ARGUMENT;
    }
    const bool split = args.Dr > 0;
    Problem problem;
    problem.q = args.q;
    problem.latent = reinterpret_cast<const unsigned char*>(args.key);
    problem.rope = reinterpret_cast<const unsigned char*>(split ? args.rope : args.key + kValueColumns);
    problem.block_table = args.block_table;
    problem.prefix_len = args.prefix_len;
    problem.node_count = args.node_count;
    problem.tree_mask = args.tree_mask;
    problem.out = args.out;
    problem.lse = args.lse;
    problem.latent_page = static_cast<int32_t>(args.key_page_stride * 2);
    problem.latent_slot = static_cast<int32_t>(args.key_slot_stride * 2);
    problem.rope_page = static_cast<int32_t>((split ? args.rope_page_stride : args.key_page_stride) * 2);
    problem.rope_slot = static_cast<int32_t>((split ? args.rope_slot_stride : args.key_slot_stride) * 2);
    const layout::PageDivisor divisor = layout::page_divisor(args.S);
    problem.page_magic = divisor.magic;
    problem.page_shift = divisor.shift;
    problem.B = args.B;
    problem.N = args.N;
    problem.W = args.W;
    problem.Hq = args.Hq;
    problem.S = args.S;
    problem.M = args.M;
    problem.scale_log2 = args.scale * 1.4426950408889634f;
    problem.workers = workers;
    problem.shares = static_cast<Shares*>(workspace);
    problem.partial = reinterpret_cast<float*>(static_cast<unsigned char*>(workspace) + shares_bytes(args));
    // Not dependently: that cost the whole step 3 us, and the merge reads lengths before it waits.
    cudaError_t error = LAUNCH(kernel, dim3(workers), dim3(kThreads), Tile::kBytes, stream, problem);
    if (error == cudaSuccess) {
        error = launch_merge<Tile>(problem, row_blocks_of(args), stream);
    }
    return launch_status(error);
}

}  // namespace mma
}  // namespace ddtree
