// The log-probs of one request of tree_build: checked, and brought into shared memory.
#pragma once

#include <limits>

#include "common.cuh"

namespace ddtree {

// Nodes, ranks and depths fit 16 bits: N <= 1025, K <= 1024, L <= 32.
using Small = int16_t;

constexpr int kHeads = 8;  // ranks of a row that are kept in double as well
constexpr int kHeadStride = kHeads + 1;  // odd, so that lanes may look at one depth each
constexpr int kSpareDepths = 16;         // below the last one, where nothing is a candidate

constexpr int kAtOnce = 8;  // steps of a loop that do not wait for each other

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kNoScore = -std::numeric_limits<double>::infinity();  // of what is no candidate
constexpr double kAnyScore = -std::numeric_limits<double>::max();      // every candidate reaches it

// A score that enough candidates reach, and how low a candidate that reaches it can be (for binning only).
struct Threshold {
    double least;
    double lowest;
};

// Log-probs of one request. Depths count from 1.
struct Rows {
    const float* logprob;
    const double* heads;  // [L + kSpareDepths, kHeadStride]: the first ranks, kNoScore where there are fewer
    int depths;
    int candidates;  // ranks that can enter a tree
    int stride;

    __device__ const float* row(int depth) const { return logprob + (depth - 1) * stride; }
    __device__ double at(int depth, int rank) const { return row(depth)[rank]; }
    __device__ const double* heads_of(int depth) const { return heads + (depth - 1) * kHeadStride; }
};

// Is `value` a log-prob that may follow `before` in its row? NaN fails the first test; -inf may stand at
// the end of a row only, which "not rising" says as well.
__device__ __forceinline__ bool follows(float value, float before) {
    return (value <= 0.0f) & (value <= before);
}

// Clears what fill_heads does not write of the heads of rows with `kept` ranks. Before the barrier that follows the
// loading.
__device__ __forceinline__ void clear_heads(double* heads, int depths, int kept) {
#pragma unroll 1
    for (int i = threadIdx.x; i < (depths + kSpareDepths) * kHeadStride; i += blockDim.x) {
        if (i % kHeadStride >= kept || i >= depths * kHeadStride) {
            heads[i] = kNoScore;
        }
    }
}

// The first ranks of the row of `depth` in double. Adds to `ties` how many of them are equal to the rank before. For a
// warp: a lane has the log-prob of one rank.
__device__ __forceinline__ void fill_heads(double* heads, int32_t* ties, const Rows& rows, int depth, float logprob) {
    const int rank = threadIdx.x % kWarp;
    const float before = __shfl_up_sync(kFullWarp, logprob, 1);
    if (rank < min(kHeads, rows.candidates)) {
        heads[(depth - 1) * kHeadStride + rank] = logprob;
        if (rank > 0 && logprob == before && logprob > -kInfinity) {
            atomicAdd(ties, 1);
        }
    }
}

// Shared by the threads of a block: are the L x K entries at `source` numbers <= 0, and is no row rising? Each
// thread answers for its own. With kKeep, ranks below `kept` go to `copy`, rows of `kept` entries. This is for rows of
// any width.
template <bool kKeep>
__device__ __forceinline__ bool load_entries(const float* source, int depths, int width, float* copy, int kept) {
    bool valid = true;
#pragma unroll 1
    for (int i = threadIdx.x; i < depths * width; i += blockDim.x) {
        const float value = source[i];
        const float before = source[max(i - 1, 0)];
        const int depth = i / width;
        const int rank = i - depth * width;
        valid = valid && follows(value, rank == 0 ? 0.0f : before);
        if (kKeep && rank < kept) {
            copy[depth * kept + rank] = value;
        }
    }
    return valid;
}

// Where four entries of rows of `width` stand, counted from 0.
struct Quad {
    int depth;
    int rank;

    __device__ Quad(int at, int width) {
        // Exact: the fraction is off an integer by half a quad, far more than float32 rounds.
        depth = static_cast<int>((static_cast<float>(at) + 0.5f) * (4.0f / static_cast<float>(width)));
        rank = 4 * at - depth * width;
    }
};

// The same, four entries at a time and kInFlight such loads at once, for aligned rows of a multiple of four. If a
// thread has one of them only, that is `mine`.
template <bool kKeep, int kInFlight>
__device__ __forceinline__ bool load_quads(const float* source, int depths, int width, float* copy, int kept,
                                           const Quad& mine) {
    const int threads = static_cast<int>(blockDim.x);
    const int self = static_cast<int>(threadIdx.x);
    const int lane = self % kWarp;
    const float4* quads = reinterpret_cast<const float4*>(source);
    const int count = depths * width / 4;
    bool valid = true;
#pragma unroll 1
    for (int start = 0; start < count; start += kInFlight * threads) {
        float4 quad[kInFlight];
        float before[kInFlight];  // the entry before the warp's first
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const int at = start + self + i * threads;
            quad[i] = at < count ? quads[at] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            before[i] = lane == 0 && at < count ? source[max(4 * at - 1, 0)] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const int at = start + self + i * threads;
            const Quad place = kInFlight == 1 ? mine : Quad(at, width);
            const int rank = place.rank;
            const float4 q = quad[i];
            const float above = __shfl_up_sync(kFullWarp, q.w, 1);
            const float last = rank == 0 ? 0.0f : lane == 0 ? before[i] : above;
            valid &= follows(q.x, last) & follows(q.y, q.x) & follows(q.z, q.y) & follows(q.w, q.z);
            if (kKeep && at < count && rank < kept) {
                float* to = copy + place.depth * kept + rank;
                if (__builtin_expect(kept % 4 == 0, 1)) {  // a quad is kept as a whole, or not at all
                    *reinterpret_cast<float4*>(to) = q;
                } else {
                    to[0] = q.x;
#pragma unroll 1
                    for (int j = 1; j < min(4, kept - rank); ++j) {
                        to[j] = j == 1 ? q.y : j == 2 ? q.z : q.w;
                    }
                }
            }
        }
    }
    return valid;
}

constexpr int kNarrow = 4 * kWarp;  // the widest row that a warp takes at once

// The same for few narrow rows, of which a warp has one: it alone sees its row afterwards. A lane has the log-prob
// `first` already, and `at` is where it comes from.
__device__ __forceinline__ bool load_narrow(const float* at, float first, int depths, int width, float* copy,
                                            int kept) {
    const int lane = threadIdx.x % kWarp;
    const int depth = threadIdx.x / kWarp;
    bool valid = true;
    if (depth < depths) {
        float value[kNarrow / kWarp] = {first};
#pragma unroll
        for (int i = 1; i < kNarrow / kWarp; ++i) {
            value[i] = i * kWarp + lane < width ? at[i * kWarp] : -kInfinity;
        }
        float last = 0.0f;  // of the 32 before
#pragma unroll
        for (int i = 0; i < kNarrow / kWarp; ++i) {
            const int rank = i * kWarp + lane;
            if (i * kWarp < width) {
                const float above = __shfl_up_sync(kFullWarp, value[i], 1);
                valid &= follows(value[i], lane > 0 ? above : last);
                last = __shfl_sync(kFullWarp, value[i], kWarp - 1);
            }
            if (rank < kept) {
                copy[depth * kept + rank] = value[i];
            }
        }
    }
    __syncwarp();
    return valid;
}

// `mine` is the quad of number threadIdx.x.
template <bool kKeep>
__device__ __forceinline__ bool load_rows(const float* source, int depths, int width, float* copy, int kept,
                                          const Quad& mine) {
    const bool quads = width % 4 == 0 && reinterpret_cast<uint64_t>(source) % sizeof(float4) == 0;
    if (__builtin_expect(quads && depths * width <= 4 * static_cast<int>(blockDim.x), 1)) {
        return load_quads<kKeep, 1>(source, depths, width, copy, kept, mine);
    }
    return quads ? load_quads<kKeep, 4>(source, depths, width, copy, kept, mine)
                 : load_entries<kKeep>(source, depths, width, copy, kept);
}

}  // namespace ddtree
