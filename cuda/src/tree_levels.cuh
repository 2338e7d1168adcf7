// The candidates of tree_build that reach a threshold, level by level.
//
// A child never scores more than its parent or its elder sibling (log-probs are <= 0 and sorted, rounding
// is monotone). So the candidates that reach T are closed under parents, and the children of a parent that
// do are its first few ranks: nothing else is looked at, and nothing is lost.
//
// Candidates are stored in the order of their rank tuples within each level: parents in order, the children
// of a parent in order. So siblings lie side by side, and of two candidates of one depth the one with the
// smaller tuple has the smaller index.
#pragma once

#include "tree_rows.cuh"

namespace ddtree {

constexpr int kFamily = 4;  // lanes that look at one parent together
constexpr int kHeads = 2 * kFamily;  // ranks they look at, half of them only where the first half are children
constexpr int kFamilies = kWarp / kFamily;
constexpr int kOverflow = -1;

// Parent, rank and depth in one word. The parent is a candidate or a node; none is 0xffff.
__device__ __forceinline__ uint32_t pack(int parent, int rank, int depth) {
    return static_cast<uint32_t>(parent) << 16 | static_cast<uint32_t>(rank) << 6 | static_cast<uint32_t>(depth);
}
__device__ __forceinline__ int parent_of(uint32_t packed) {
    return static_cast<int>(packed) >> 16;
}
__device__ __forceinline__ int rank_of(uint32_t packed) {
    return packed >> 6 & 0x3ff;
}
__device__ __forceinline__ int depth_of(uint32_t packed) {
    return packed & 0x3f;
}

struct Candidates {
    double* score;
    uint32_t* place;  // packed; children of the root have no parent

    __host__ __device__ static int bytes(int capacity) {
        return capacity * static_cast<int>(sizeof(double) + sizeof(uint32_t));
    }
    __device__ Candidates(unsigned char* memory, int capacity)
        : score(reinterpret_cast<double*>(memory)), place(reinterpret_cast<uint32_t*>(score + capacity)) {}

    __device__ void put(int at, double its_score, int parent, int rank, int depth) const {
        score[at] = its_score;
        place[at] = pack(parent, rank, depth);
    }
};

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

// How many of the first `ranks` of `row` give `score` + log-prob >= least? `known` do. A warp asks together:
// first about the next 32, then at 32 places in what is left.
__device__ __forceinline__ int count_reaching(const float* row, double score, double least, int known, int ranks) {
    const int lane = threadIdx.x % kWarp;
    int low = known;
    int high = ranks;
#pragma unroll 1
    for (int step = 1; low < high; step = ceil_div(high - low, kWarp + 1)) {
        const int probe = low + (lane + 1) * step - 1;
        const int good = __popc(__ballot_sync(kFullWarp, probe < high && score + row[probe] >= least));
        high = good < kWarp ? min(high, low + (good + 1) * step - 1) : high;
        low += good * step;
    }
    return low;
}

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

// First lanes of the families all of whose lanes are in `lanes`.
__device__ __forceinline__ unsigned families_full(unsigned lanes) {
    return lanes & lanes >> 1 & lanes >> 2 & lanes >> 3 & 0x11111111u;
}

// Children of parents that have more than a family looks at: the warp counts them, one parent after the other.
__device__ __forceinline__ void count_large(const float* row, int ranks, double score, double least, unsigned full,
                                            int& place, int& children, int& more) {
    const int leader = threadIdx.x % kWarp / kFamily * kFamily;
#pragma unroll 1
    for (unsigned left = full; left != 0; left &= left - 1) {
        const int its_leader = __ffs(static_cast<int>(left)) - 1;
        const double its_score = __shfl_sync(kFullWarp, score, its_leader);
        const int its_more = count_reaching(row, its_score, least, kHeads, ranks) - kHeads;
        more = leader == its_leader ? its_more : more;
        place += leader > its_leader ? its_more : 0;
        children += its_more;
    }
}

// Puts those children.
__device__ __forceinline__ void put_large(const Candidates& found, const float* row, double score, unsigned full,
                                          int place, int more, int parent, int depth, int capacity) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (unsigned left = full; left != 0; left &= left - 1) {
        const int its_leader = __ffs(static_cast<int>(left)) - 1;
        const double its_score = __shfl_sync(kFullWarp, score, its_leader);
        const int its_place = __shfl_sync(kFullWarp, place, its_leader);
        const int its_parent = __shfl_sync(kFullWarp, parent, its_leader);
        const int count = min(kHeads + __shfl_sync(kFullWarp, more, its_leader), capacity - its_place);
#pragma unroll 1
        for (int rank = kHeads + lane; rank < count; rank += kWarp) {
            found.put(its_place + rank, its_score + row[rank], its_parent, rank, depth);
        }
    }
}

// All candidates that score `least` or more. If there are more than `capacity` the answer is kOverflow, and
// the first `capacity` that were found are there. The team gets the answer, and sees the candidates.
template <bool kOneWarp>
__device__ __forceinline__ int grow_levels(const Team<kOneWarp>& team, const Candidates& found, const Rows& rows,
                                           double least, int capacity) {
    const int lane = threadIdx.x % kWarp;
    const int seat = lane % kFamily;
    const int leader = lane - seat;
    const unsigned before = low_bits(leader);
    const int families = team.size() / kFamily;
    const int warp_families = kOneWarp ? 0 : static_cast<int>(threadIdx.x) / kWarp * kFamilies;
    int level = 0;  // where the parents begin
    int end = first_level<kOneWarp>(found, rows, least, capacity);
    int turn = 0;
#pragma unroll 1
    for (int depth = 2; depth <= rows.depths && level < end; ++depth) {
        const float* row = rows.row(depth);
        const double head = seat < rows.candidates ? static_cast<double>(row[seat]) : kNoScore;
        const double next_head =
            kFamily + seat < rows.candidates ? static_cast<double>(row[kFamily + seat]) : kNoScore;
        const int level_end = end;
#pragma unroll 1
        for (int first = level; first < level_end; first += families) {
            const int mine = first + warp_families + lane / kFamily;  // my family's parent
            double score = kNoScore;
            int children = 0;          // of the warp's parents
            int place = 0;             // those before my family's
            unsigned full = 0;         // families that saw children only
            bool reaches = false;
            bool next_reaches = false;
            int more = 0;              // children of my family's parent beyond those
            if (first + warp_families < level_end) {
                score = mine < level_end ? found.score[mine] : kNoScore;
                reaches = score + head >= least;
                const unsigned heads = __ballot_sync(kFullWarp, reaches);
                place = __popc(heads & before);
                children = __popc(heads);
                full = families_full(heads);
                if (full != 0) {
                    next_reaches = score + next_head >= least;
                    const unsigned next_heads = __ballot_sync(kFullWarp, next_reaches);
                    place += __popc(next_heads & before);
                    children += __popc(next_heads);
                    full = families_full(next_heads);
                }
                if (full != 0) {
                    count_large(row, rows.candidates, score, least, full, place, children, more);
                }
            }
            int all;
            place += end + team.before(children, turn, all);
            turn = 1 - turn;
            end += all;
            if (reaches && place + seat < capacity) {
                found.put(place + seat, score + head, mine, seat, depth);
            }
            if (next_reaches && place + kFamily + seat < capacity) {
                found.put(place + kFamily + seat, score + next_head, mine, kFamily + seat, depth);
            }
            if (full != 0) {
                put_large(found, row, score, full, place, more, mine, depth, capacity);
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
