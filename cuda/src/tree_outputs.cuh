// The outputs of tree_build: every slot of every array is written.
#pragma once

#include "tree_order.cuh"

namespace ddtree {

constexpr int kFewWords = 4;  // of a mask row, that are made one by one

// A share of the node slots.
struct Slots {
    int first;
    int end;
};

__device__ __forceinline__ void clear_words(uint32_t* tile, int count) {
#pragma unroll 1
    for (int i = threadIdx.x; i < (count + 3) / 4; i += blockDim.x) {
        reinterpret_cast<uint4*>(tile)[i] = make_uint4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ void copy_words(uint32_t* to, const uint32_t* tile, int count) {
    const int threads = static_cast<int>(blockDim.x);
    const int self = static_cast<int>(threadIdx.x);
    if (reinterpret_cast<uint64_t>(to) % sizeof(uint4) == 0 && count >= 4 * threads) {
#pragma unroll 1
        for (int i = self; i < count / 4; i += threads) {
            reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(tile)[i];
        }
#pragma unroll 1
        for (int i = count / 4 * 4 + self; i < count; i += threads) {
            to[i] = tile[i];
        }
        return;
    }
#pragma unroll 1
    for (int i = self; i < count; i += threads) {
        to[i] = tile[i];
    }
}

// The mask rows of the nodes from `first` on, by a thread per word that goes up all ancestors.
__device__ __forceinline__ void set_words(uint32_t* tile, const Nodes& nodes, int words, int first, int end) {
#pragma unroll 1
    for (int i = threadIdx.x; i < (end - first) * words; i += blockDim.x) {
        const int row = i / words;
        const int from = 32 * (i - row * words);
        uint32_t bits = 0;
#pragma unroll 1
        for (int seen = first + row; seen >= from; seen = parent_of(nodes.place[seen])) {
            bits |= seen < from + 32 ? 1u << (seen - from) : 0u;
        }
        tile[i] = bits;
    }
}

// The same by a thread per row, in a tile that holds zeros. Ancestors come in falling order, so each word is
// finished before the next one is begun.
__device__ __forceinline__ void set_rows(uint32_t* tile, const Nodes& nodes, int words, int first, int end) {
#pragma unroll 1
    for (int row = first + static_cast<int>(threadIdx.x); row < end; row += blockDim.x) {
        uint32_t* to = tile + (row - first) * words;
        int word = row / 32;
        uint32_t bits = 0;
#pragma unroll 1
        for (int seen = row; seen != kNone; seen = parent_of(nodes.place[seen])) {
            if (seen / 32 != word) {
                to[word] = bits;
                word = seen / 32;
                bits = 0;
            }
            bits |= 1u << (seen % 32);
        }
        to[word] = bits;
    }
}

// Writes nodes and mask of some slots. `nodes` is seen by all at entry; `tile` has room for `tile_rows` mask
// rows, rounded up to 16 bytes, and holds zeros if `tile_is_clear`.
__device__ __forceinline__ void write_tree(const ddtree_tree_build_args& args, const Nodes& nodes, int request,
                                           Slots slots, int live, int32_t root, int32_t prefix, uint32_t* tile,
                                           int tile_rows, bool tile_is_clear) {
    const int threads = static_cast<int>(blockDim.x);
    const int self = static_cast<int>(threadIdx.x);
    const int64_t first = static_cast<int64_t>(request) * args.N;
    const int32_t* tokens = args.topk_token + static_cast<int64_t>(request) * args.L * args.K;

    // The load of the token runs while the mask is made.
    const auto token_of = [&](int node) {
        const uint32_t place = nodes.place[node];
        return node > 0 ? tokens[(depth_of(place) - 1) * args.K + rank_of(place)] : root;
    };
    int node = slots.first + self;
    int32_t token = node < min(live, slots.end) ? token_of(node) : kNone;

    uint32_t* mask = args.tree_mask + first * args.W;
#pragma unroll 1
    for (int begin = slots.first; begin < slots.end; begin += tile_rows) {
        const int end = min(begin + tile_rows, slots.end);
        if (begin > slots.first || !tile_is_clear) {
            clear_words(tile, (end - begin) * args.W);
            __syncthreads();
        }
        if (args.W <= kFewWords) {
            set_words(tile, nodes, args.W, begin, min(end, live));
        } else {
            set_rows(tile, nodes, args.W, begin, min(end, live));
        }
        __syncthreads();
        copy_words(mask + static_cast<int64_t>(begin) * args.W, tile, (end - begin) * args.W);
        if (end < slots.end) {
            __syncthreads();  // the tile has been read
        }
    }

#pragma unroll 1
    while (node < slots.end) {
        const bool is_live = node < live;
        const uint32_t place = is_live ? nodes.place[node] : 0;
        args.node_token[first + node] = token;
        args.node_parent[first + node] = is_live ? parent_of(place) : kNone;
        args.node_depth[first + node] = is_live ? depth_of(place) : kNone;
        args.position[first + node] = is_live ? prefix + depth_of(place) : kNone;
        args.next_token[first + node] = is_live ? nodes.child[node] : kNone;
        args.next_sibling[first + node] = is_live ? nodes.sibling[node] : kNone;
        node += threads;
        token = node < min(live, slots.end) ? token_of(node) : kNone;
    }
}

}  // namespace ddtree
