// Puts the candidates of tree_build into the contract's order: score descending, then rank tuples
// ascending, a shorter prefix first. Then the best become nodes.
//
// A bin of scores holds few candidates, and bins are in order; so a candidate's number is where its bin
// starts plus how many of its bin come before it. Any split into bins is right, as long as it is monotone.
#pragma once

#include "tree_levels.cuh"
#include "tree_nodes.cuh"

namespace ddtree {

constexpr int kItems = 4;     // candidates per thread, at most
constexpr int kBinsEach = 4;  // bins per thread
constexpr int kBinStep = 4;   // candidates of a bin that are compared at once
constexpr int kFewCandidates = 6 * kWarp;     // up to here comparing all pairs is faster
constexpr int kPaddedCandidates = 8 * kWarp;  // their scores, and kNoScore
constexpr int kMostBins = kBinsEach * 1024;

struct OrderMemory {
    int32_t* bin;      // [bins() + 1]: counts, then starts
    long long* worst;  // cost in one bin, as bits
    int32_t* chosen;   // that bin
    int32_t* total;    // [kWarp]: sums of numbers
    uint32_t* where;   // [capacity]: bin of each candidate, and above it the place within
    int32_t* number;   // the same memory, later: node numbers, more than the budget for those left over
    Small* placed;     // [capacity + 1]: candidates by bin

    __host__ __device__ static int bytes(int capacity, int threads) {
        return static_cast<int>(2 * sizeof(long long) + (kBinsEach * threads + 4 + kWarp) * sizeof(int32_t) +
                                capacity * (sizeof(uint32_t) + sizeof(Small)) + sizeof(Small));
    }
    __device__ OrderMemory(unsigned char* memory, int capacity)
        : bin(reinterpret_cast<int32_t*>(memory)),
          worst(reinterpret_cast<long long*>(bin + bins() + 4)),
          chosen(reinterpret_cast<int32_t*>(worst + 1)),
          total(reinterpret_cast<int32_t*>(worst + 2)),
          where(reinterpret_cast<uint32_t*>(total + kWarp)),
          number(reinterpret_cast<int32_t*>(where)),
          placed(reinterpret_cast<Small*>(where + capacity)) {}

    __device__ static int bins() { return kBinsEach * static_cast<int>(blockDim.x); }
    __device__ int bin_of(int item) const { return where[item] % kMostBins; }
    __device__ int place_of(int item) const { return bin[bin_of(item)] + where[item] / kMostBins; }

    // Before a barrier that precedes the numbering.
    __device__ void clear() const {
        reinterpret_cast<int4*>(bin)[threadIdx.x] = make_int4(0, 0, 0, 0);
        if (threadIdx.x < kFewCandidates / 4) {
            reinterpret_cast<int4*>(number)[threadIdx.x] = make_int4(0, 0, 0, 0);
        }
        if (threadIdx.x < kWarp) {
            total[threadIdx.x] = 0;
        }
        if (threadIdx.x == 0) {
            *worst = 0;
            *chosen = 0;
        }
    }
};

__device__ __forceinline__ double bins_per_unit(double best, double lowest) {
    const double range = best - lowest;
    return range > 1e-30 ? (OrderMemory::bins() - 1) / range : 0.0;
}

// Bins divide the scores from `best` down to `lowest`; others fall into the first or the last. A thread
// looks after the candidates threadIdx.x + i * blockDim.x. For the whole block; the memory is clear.
__device__ __forceinline__ void sort_into_bins(const OrderMemory& memory, const Team<false>& team,
                                               const Candidates& found, int count, double best, double lowest) {
    const int threads = static_cast<int>(blockDim.x);
    const int self = static_cast<int>(threadIdx.x);
    const int last_bin = OrderMemory::bins() - 1;
    const double scale = bins_per_unit(best, lowest);
#pragma unroll 1
    for (int item = self; item < count; item += threads) {
        const double steps = (best - found.score[item]) * scale;  // may be beyond what an int holds
        const int bin = !(steps > 0.0) ? 0 : steps < last_bin ? static_cast<int>(steps) : last_bin;
        memory.where[item] = bin + kMostBins * static_cast<uint32_t>(atomicAdd(&memory.bin[bin], 1));
    }
    __syncthreads();

    const int lane = self % kWarp;
    int4 mine = reinterpret_cast<const int4*>(memory.bin)[self];
    const int sum = mine.x + mine.y + mine.z + mine.w;
    int upto = sum;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const int other = __shfl_up_sync(kFullWarp, upto, step);
        upto += lane >= step ? other : 0;
    }
    int all;
    const int start = team.before(__shfl_sync(kFullWarp, upto, kWarp - 1), 0, all) + upto - sum;
    reinterpret_cast<int4*>(memory.bin)[self] =
        make_int4(start, start + mine.x, start + mine.x + mine.y, start + sum - mine.w);
    if (self == 0) {
        memory.bin[last_bin + 1] = count;
    }
    __syncthreads();
}

// Is the rank tuple of candidate a before that of candidate b?
__device__ __forceinline__ bool tuple_before(const Candidates& found, int a, int b) {
    const int depth_a = depth_of(found.place[a]);
    const int depth_b = depth_of(found.place[b]);
#pragma unroll 1
    for (int depth = depth_a; depth > depth_b; --depth) {
        a = parent_of(found.place[a]);
    }
#pragma unroll 1
    for (int depth = depth_b; depth > depth_a; --depth) {
        b = parent_of(found.place[b]);
    }
    if (a == b) {
        return depth_a < depth_b;
    }
    if (found.in_order) {
        return a < b;
    }
    while (parent_of(found.place[a]) != parent_of(found.place[b])) {
        a = parent_of(found.place[a]);
        b = parent_of(found.place[b]);
    }
    return rank_of(found.place[a]) < rank_of(found.place[b]);
}

__device__ __forceinline__ bool comes_before(const Candidates& found, int a, int b) {
    const double score_a = found.score[a];
    const double score_b = found.score[b];
    return score_a > score_b || (score_a == score_b && tuple_before(found, a, b));
}

// Numbers of few candidates: how many score as much, itself included. Right unless some tie, which the answer
// says to all. A lane has a candidate, a warp compares 32 with a part of all. Behind the last are kNoScore, up
// to kPaddedCandidates.
__device__ __forceinline__ bool number_by_pairs(const OrderMemory& memory, const Candidates& found, int count) {
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int groups_log = (count > kWarp) + (count > 2 * kWarp) + (count > 4 * kWarp);
    const int parts = static_cast<int>(blockDim.x / kWarp) >> groups_log;
    const int part = warp >> groups_log;
    // Turned by the part, so that a group without candidates does not leave one scheduler idle.
    const int group = (warp + part) & ((1 << groups_log) - 1);
    if (group * kWarp < count) {
        const int item = group * kWarp + lane;
        const double score = found.score[item];
        int counted = 0;
#pragma unroll 1
        for (int first = part * kAtOnce; first < count; first += kAtOnce * parts) {
            counted += kAtOnce;
#pragma unroll
            for (int i = 0; i < kAtOnce; i += 2) {
                const double2 others = *reinterpret_cast<const double2*>(found.score + first + i);
                counted -= falls_short(others.x, score) + falls_short(others.y, score);
            }
        }
        counted = item < count ? counted : 0;
        atomicAdd(&memory.number[item], counted);
        atomicAdd(&memory.total[lane], counted);
    }
    __syncthreads();
    return __reduce_add_sync(kFullWarp, memory.total[lane]) > count * (count + 1) / 2;
}

// The same where some tie: tuples decide.
__device__ __forceinline__ void number_ties(const OrderMemory& memory, const Candidates& found, int count) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (int item = threadIdx.x / kWarp; item < count; item += blockDim.x / kWarp) {
        int number = 0;
#pragma unroll 1
        for (int other = lane; other < count; other += kWarp) {
            number += other == item || comes_before(found, other, item);
        }
        number = __reduce_add_sync(kFullWarp, number);
        if (lane == 0) {
            memory.number[item] = number;
        }
    }
    __syncthreads();
}

// Of the candidates at the places from `start` to `end`, how many score as much as `item` and have tuples before its;
// more than `enough` need not be counted.
__device__ __forceinline__ int elder_ties(const OrderMemory& memory, const Candidates& found, int item, int start,
                                          int end, int enough) {
    const double score = found.score[item];
    int count = 0;
#pragma unroll 1
    for (int i = start; i < end && count <= enough; ++i) {
        const int other = memory.placed[i];
        count += other != item && found.score[other] == score && tuple_before(found, other, item);
    }
    return count;
}

// Numbers of many, by bins.
__device__ __forceinline__ void number_by_bins(const OrderMemory& memory, const Team<false>& team,
                                               const Candidates& found, int count, int budget, double lowest) {
    const int threads = static_cast<int>(blockDim.x);
    const int self = static_cast<int>(threadIdx.x);
    sort_into_bins(memory, team, found, count, count > 0 ? found.score[0] : 0.0, lowest);
#pragma unroll 1
    for (int item = self; item < count; item += threads) {
        memory.placed[memory.place_of(item)] = static_cast<Small>(item);
    }
    __syncthreads();

#pragma unroll 1
    for (int item = self; item < count; item += threads) {
        const int start = memory.bin[memory.bin_of(item)];
        const int end = memory.bin[memory.bin_of(item) + 1];
        const double score = found.score[item];
        int number = 1 + start;
        int as_much = 0;  // score as much, itself included
#pragma unroll 1
        for (int first = start; first < end && number <= budget; first += kBinStep) {
#pragma unroll
            for (int i = first; i < first + kBinStep; ++i) {
                const double other = found.score[memory.placed[min(i, end - 1)]];
                number += i < end && other > score;
                as_much += i < end && other == score;
            }
        }
        if (__builtin_expect(as_much > 1 && number <= budget, 0)) {
            number += elder_ties(memory, found, item, start, end, budget - number);
        }
        memory.number[item] = min(number, budget + 1);
    }
    __syncthreads();
}

// Numbers the best `budget` of `count` candidates from 1 in the contract's order and makes them nodes. For
// the whole block; the memory is clear. `lowest`: no candidate scores less, or only binning suffers.
__device__ __forceinline__ void number_nodes(const OrderMemory& memory, const Team<false>& team,
                                             const Candidates& found, const Nodes& nodes, int count, int budget,
                                             double lowest) {
    const Item first(found, threadIdx.x, count);  // read while the numbers are made
    if (count > kFewCandidates) {
        number_by_bins(memory, team, found, count, budget, lowest);
    } else if (__builtin_expect(number_by_pairs(memory, found, count), 0)) {
        number_ties(memory, found, count);
    }
    if (first.item < count) {
        first.make_node(memory.number, nodes, budget);
    }
#pragma unroll 1
    for (int item = threadIdx.x + blockDim.x; item < count; item += blockDim.x) {
        Item(found, item, count).make_node(memory.number, nodes, budget);
    }
    __syncthreads();
}

}  // namespace ddtree
