// The outputs of tree_build: every slot of every array is written.
#pragma once

#include "tree_order.cuh"

namespace ddtree {

constexpr int kFewWords = 4;  // of a mask row, that are made one by one

// What the outputs need of a request but for its nodes.
struct Request {
    const int32_t* tokens;  // [L, K]
    int64_t first;          // of its node slots in the outputs
    uint32_t* mask;         // [N, W]
    int32_t root;
    int32_t prefix;
    int live;  // nodes, with the root
};

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

// Mask rows of few words, by a thread per word. Each takes the first kStep nodes of the way up for its row, then
// those that others have taken for theirs.
struct FewMasks {
    static constexpr int kStep = 4;
    static constexpr int kRows = kFewWords * 32;  // a block has a thread for each of their words

    uint32_t* taken;  // [kFewWords, kRows]
    Small* next;      // [kRows]: the node after them, kNone if there is none

    __device__ explicit FewMasks(uint32_t* memory)
        : taken(memory), next(reinterpret_cast<Small*>(memory + kFewWords * kRows)) {}

    // For the whole block.
    __device__ void write(uint32_t* mask, const Nodes& nodes, int words, int slots, int live) const {
        const int row = threadIdx.x % kRows;
        const int word = threadIdx.x / kRows;
        const bool asked = word < words && row < slots;
        uint32_t bits = 0;
        int seen = row < live ? row : kNone;
        if (asked) {  // the others leave the way to them
#pragma unroll
            for (int step = 0; step < kStep; ++step) {  // no branch: none is in no word, and the root has none
                bits |= seen >> 5 == word ? 1u << (seen & 31) : 0u;
                seen = parent_of(nodes.place[max(seen, 0)]);
            }
            taken[threadIdx.x] = bits;
            if (word == 0) {
                next[row] = static_cast<Small>(seen);
            }
        }
        __syncthreads();
        if (asked) {
#pragma unroll 1
            while (seen != kNone) {
                bits |= taken[word * kRows + seen];
                seen = next[seen];
            }
            mask[row * words + word] = bits;
        }
    }
};

// Sets the mask rows of the nodes from `first` on, by a thread per row, in a tile that holds zeros. Ancestors come
// in falling order, so the last write of a word has all its bits.
__device__ __forceinline__ void set_rows(uint32_t* tile, const Nodes& nodes, int words, int first, int end) {
#pragma unroll 1
    for (int row = first + static_cast<int>(threadIdx.x); row < end; row += blockDim.x) {
        uint32_t* to = tile + (row - first) * words;
        int word = row >> 5;
        uint32_t bits = 0;
#pragma unroll 1
        for (int seen = row; seen != kNone; seen = parent_of(nodes.place[seen])) {
            bits = (seen >> 5 == word ? bits : 0) | 1u << (seen & 31);
            word = seen >> 5;
            to[word] = bits;
        }
    }
}

// What is written of a node but for the mask.
struct Slot {
    int node;
    int depth = 0;
    int32_t token = kNone;
    int parent = kNone;

    __device__ void read(const ddtree_tree_build_args& args, const Request& request, const Nodes& nodes) {
        const bool is_live = node < request.live;
        const uint32_t place = is_live ? nodes.place[node] : pack(kNone, 0, 0);
        depth = depth_of(place);
        parent = parent_of(place);
        token = is_live ? request.root : kNone;
        if (depth > 0) {
            token = request.tokens[(depth - 1) * args.K + rank_of(place)];
        }
    }

    __device__ void write(const ddtree_tree_build_args& args, const Request& request, const Nodes& nodes) const {
        const bool is_live = node < request.live;
        const int64_t at = request.first + node;
        args.node_parent[at] = parent;
        args.node_depth[at] = is_live ? depth : kNone;
        args.position[at] = is_live ? request.prefix + depth : kNone;
        args.next_token[at] = is_live ? nodes.child[node] : kNone;
        args.next_sibling[at] = is_live ? nodes.sibling[node] : kNone;
        args.node_token[at] = token;
    }
};

// Writes nodes and mask of some slots. `nodes` is seen by all at entry; `tile` has room for `tile_rows` mask
// rows, rounded up to 16 bytes, and holds zeros if `tile_is_clear`. It is used past kFewWords only.
__device__ __forceinline__ void write_tree(const ddtree_tree_build_args& args, const Request& request,
                                           const Nodes& nodes, Slots slots, uint32_t* tile, int tile_rows,
                                           bool tile_is_clear) {
    // The last threads take the first nodes, as the first threads make the mask.
    const int first = static_cast<int>(blockDim.x) - 1 - static_cast<int>(threadIdx.x);
    if (__builtin_expect(args.W <= kFewWords, 1)) {
        // The token is on its way while the mask is made.
        Slot mine{first};
        if (first < args.N) {
            mine.read(args, request, nodes);
        }
        FewMasks(tile).write(request.mask, nodes, args.W, args.N, request.live);
        if (first < args.N) {
            mine.write(args, request, nodes);
        }
        return;
    }
#pragma unroll 1
    for (int begin = slots.first; begin < slots.end; begin += tile_rows) {
        const int end = min(begin + tile_rows, slots.end);
        if (begin > slots.first || !tile_is_clear) {
            clear_words(tile, (end - begin) * args.W);
            __syncthreads();
        }
        set_rows(tile, nodes, args.W, begin, min(end, request.live));
        if (begin == slots.first) {
#pragma unroll 1
            for (int node = slots.first + first; node < slots.end; node += blockDim.x) {
                Slot slot{node};
                slot.read(args, request, nodes);
                slot.write(args, request, nodes);
            }
        }
        __syncthreads();
        copy_words(request.mask + static_cast<int64_t>(begin) * args.W, tile, (end - begin) * args.W);
        if (end < slots.end) {
            __syncthreads();  // the tile has been read
        }
    }
}

}  // namespace ddtree
