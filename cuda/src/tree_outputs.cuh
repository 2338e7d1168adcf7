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

// Writes mask words of the slots, by a thread per word that goes up all ancestors.
__device__ __forceinline__ void write_words(uint32_t* mask, const Nodes& nodes, int words, Slots slots, int live) {
#pragma unroll 1
    for (int i = slots.first * words + static_cast<int>(threadIdx.x); i < slots.end * words; i += blockDim.x) {
        const int row = i / words;
        const int from = 32 * (i - row * words);
        uint32_t bits = 0;
        if (row < live) {
            int seen = row;
            // Counting the steps keeps the loop from waiting for the parent that it loads.
#pragma unroll 1
            for (int steps = depth_of(nodes.place[row]); steps >= 0; --steps) {
                bits |= seen / 32 == from / 32 ? 1u << seen % 32 : 0u;
                seen = parent_of(nodes.place[seen]);
            }
        }
        mask[i] = bits;
    }
}

// Sets the mask rows of the nodes from `first` on, by a thread per row, in a tile that holds zeros. Ancestors come
// in falling order, so each word is finished before the next one is begun.
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

// Writes all arrays of the slots but the mask. The last threads begin, as the first ones make the mask.
__device__ __forceinline__ void write_nodes(const ddtree_tree_build_args& args, const Nodes& nodes, int request,
                                            Slots slots, int live, int32_t root, int32_t prefix) {
    const int threads = static_cast<int>(blockDim.x);
    const int64_t first = static_cast<int64_t>(request) * args.N;
    const int32_t* tokens = args.topk_token + static_cast<int64_t>(request) * args.L * args.K;
#pragma unroll 1
    for (int node = slots.first + threads - 1 - static_cast<int>(threadIdx.x); node < slots.end; node += threads) {
        const bool is_live = node < live;
        const uint32_t place = is_live ? nodes.place[node] : pack(kNone, 0, 0);
        const int depth = depth_of(place);
        int32_t token = is_live ? root : kNone;
        if (depth > 0) {
            token = tokens[(depth - 1) * args.K + rank_of(place)];
        }
        args.node_parent[first + node] = parent_of(place);
        args.node_depth[first + node] = is_live ? depth : kNone;
        args.position[first + node] = is_live ? prefix + depth : kNone;
        args.next_token[first + node] = is_live ? nodes.child[node] : kNone;
        args.next_sibling[first + node] = is_live ? nodes.sibling[node] : kNone;
        args.node_token[first + node] = token;
    }
}

// Writes nodes and mask of some slots. `nodes` is seen by all at entry; `tile` has room for `tile_rows` mask
// rows, rounded up to 16 bytes, and holds zeros if `tile_is_clear`. It is used past kFewWords only.
__device__ __forceinline__ void write_tree(const ddtree_tree_build_args& args, const Nodes& nodes, int request,
                                           Slots slots, int live, int32_t root, int32_t prefix, uint32_t* tile,
                                           int tile_rows, bool tile_is_clear) {
    uint32_t* mask = args.tree_mask + static_cast<int64_t>(request) * args.N * args.W;
    if (args.W <= kFewWords) {
        write_words(mask, nodes, args.W, slots, live);
        write_nodes(args, nodes, request, slots, live, root, prefix);
        return;
    }
#pragma unroll 1
    for (int begin = slots.first; begin < slots.end; begin += tile_rows) {
        const int end = min(begin + tile_rows, slots.end);
        if (begin > slots.first || !tile_is_clear) {
            clear_words(tile, (end - begin) * args.W);
            __syncthreads();
        }
        set_rows(tile, nodes, args.W, begin, min(end, live));
        if (begin == slots.first) {
            write_nodes(args, nodes, request, slots, live, root, prefix);
        }
        __syncthreads();
        copy_words(mask + static_cast<int64_t>(begin) * args.W, tile, (end - begin) * args.W);
        if (end < slots.end) {
            __syncthreads();  // the tile has been read
        }
    }
}

}  // namespace ddtree
