// The candidates of tree_build that reach a threshold, level by level, in order.
//
// Candidates are stored in the order of their rank tuples within each level: parents in order, the children
// of a parent in order. So siblings lie side by side, and of two candidates of one depth the one with the
// smaller tuple has the smaller index.
#pragma once

#include "tree_candidates.cuh"

namespace ddtree {

// The threads that work on a tree: the first warp, or the whole block.
template <bool kOneWarp>
struct Team {
    int32_t* warp_total;  // [2, kWarp], for a block

    __device__ static int size() { return kOneWarp ? kWarp : static_cast<int>(blockDim.x); }
    __device__ static void sync() {
        if (kOneWarp) {
            __syncwarp();
        } else {
            __syncthreads();
        }
    }
    // Sum of `mine` over the warps before this one, and over all of them. `mine` is the warp's. Calls
    // alternate between two `turns`, so that one barrier is enough.
    __device__ int before(int mine, int turn, int& all) const {
        if (kOneWarp) {
            all = mine;
            return 0;
        }
        const int lane = threadIdx.x % kWarp;
        const int warp = threadIdx.x / kWarp;
        int32_t* totals = warp_total + turn * kWarp;
        if (lane == 0) {
            totals[warp] = mine;
        }
        __syncthreads();
        const int total = lane < size() / kWarp ? totals[lane] : 0;
        all = __reduce_add_sync(kFullWarp, total);
        return __reduce_add_sync(kFullWarp, lane < warp ? total : 0);
    }
};

// Children of the root.
template <bool kOneWarp>
__device__ __forceinline__ int first_level(const Candidates& found, const Rows& rows, double least, int capacity) {
    const float* row = rows.row(1);
    int count = 0;
#pragma unroll 1
    for (int start = 0; start < rows.candidates; start += Team<kOneWarp>::size()) {
        const int rank = start + static_cast<int>(threadIdx.x);
        const double score = rank < rows.candidates ? 0.0 + row[rank] : kNoScore;
        const bool reaches = score >= least;
        if (reaches && rank < capacity) {
            found.put(rank, score, kNone, rank, 1);
        }
        const int here = kOneWarp ? __popc(__ballot_sync(kFullWarp, reaches)) : __syncthreads_count(reaches);
        count += here;
        if (here < Team<kOneWarp>::size()) {
            break;
        }
    }
    if (kOneWarp) {
        __syncwarp();  // a block has met above
    }
    return count <= capacity ? count : kOverflow;
}

// Puts those children.
__device__ __forceinline__ void put_more(const Candidates& found, const float* row, unsigned lanes,
                                         const Brood& brood, int parent, int depth, int capacity) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (unsigned left = lanes; left != 0; left &= left - 1) {
        const int owner = __ffs(static_cast<int>(left)) - 1;
        const double score = __shfl_sync(kFullWarp, brood.score, owner);
        const int place = __shfl_sync(kFullWarp, brood.place, owner);
        const int its_parent = __shfl_sync(kFullWarp, parent, owner);
        const int end = min(kHeads + __shfl_sync(kFullWarp, brood.more, owner), capacity - place);
#pragma unroll 1
        for (int rank = kHeads + lane; rank < end; rank += kWarp) {
            found.put(place + rank, score + row[rank], its_parent, rank, depth);
        }
    }
}

// All candidates that score `least` or more. If there are more than `capacity` the answer is kOverflow, and
// the first `capacity` that were found are there. The team gets the answer, and sees the candidates.
template <bool kOneWarp>
__device__ __forceinline__ int grow_levels(const Team<kOneWarp>& team, const Candidates& found, const Rows& rows,
                                           double least, int capacity) {
    const int seat = kOneWarp ? threadIdx.x % kWarp : threadIdx.x;
    const int warp_seat = kOneWarp ? 0 : static_cast<int>(threadIdx.x) / kWarp * kWarp;
    int level = 0;  // where the parents begin
    int end = first_level<kOneWarp>(found, rows, least, capacity);
    int turn = 0;
#pragma unroll 1
    for (int depth = 2; depth <= rows.depths && level < end; ++depth) {
        const float* row = rows.row(depth);
        const double* heads = rows.heads_of(depth);
        const int level_end = end;
#pragma unroll 1
        for (int first = level; first < level_end; first += team.size()) {
            const int mine = first + seat;
            Brood brood;
            unsigned large = 0;  // parents that have children only among their heads
            if (first + warp_seat < level_end) {
                brood.score = mine < level_end ? found.score[mine] : kNoScore;
                large = count_heads<0>(heads, least, brood);
                if (__builtin_expect(large != 0, 0)) {
                    count_more(rows, least, large, depth, brood);
                }
            }
            int all;
            brood.place += end + team.before(brood.all, turn, all);
            turn = 1 - turn;
            end += all;
            put_heads<0>(heads, brood, [&](int rank, double score) {
                if (brood.place + rank < capacity) {
                    found.put(brood.place + rank, score, mine, rank, depth);
                }
            });
            if (__builtin_expect(large != 0, 0)) {
                put_more(found, row, large, brood, mine, depth, capacity);
            }
            if (end > capacity) {
                team.sync();
                return kOverflow;
            }
        }
        level = level_end;
        team.sync();
    }
    return end;
}

}  // namespace ddtree
