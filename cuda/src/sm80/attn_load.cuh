// Copies of query rows and key rows into shared memory, and the list of tail nodes that a tile sees.
#pragma once

#include "attn_tile.cuh"
#include "ddtree.h"
#include "ptx.cuh"

namespace ddtree {
namespace mma {

// Blocks of 16 rows of a request.
__host__ __device__ inline int blocks_of_request(int N, int Hq) { return (N * Hq + 15) / 16; }

// Who shares the tile of 16 rows: workers first, first + 1, .. Written for the merge by the first of them.
struct Shares {
    int32_t first;
    int16_t parts;
    int16_t block;  // of the tile's blocks of 16 rows
};

// What a kernel needs to know; pools as bytes.
struct Problem {
    const uint16_t* q;
    const unsigned char* latent;
    const unsigned char* rope;
    const int32_t* block_table;
    const int32_t* prefix_len;
    const int32_t* node_count;
    const uint32_t* tree_mask;
    uint16_t* out;
    float* lse;
    int32_t latent_page;  // strides in bytes
    int32_t latent_slot;
    int32_t rope_page;
    int32_t rope_slot;
    int32_t B;
    int32_t N;
    int32_t W;
    int32_t Hq;
    int32_t S;
    int32_t M;
    uint32_t page_magic;  // slot / S = (umulhi(slot, page_magic) + slot) >> page_shift
    uint32_t page_shift;
    float scale_log2;  // scale * log2(e)
    int32_t workers;
    float* partial;      // [2 * workers] partial results, see attn_merge.cuh
    Shares* shares;      // [B, blocks_of_request]
};

// The part of a tile's work that this block does.
struct Task {
    int request;
    int live;       // nodes
    int prefix;
    int first_row;  // row = node * Hq + head, in the request
    int rows;       // live rows of the tile
    int first_unit;    // of the prefix
    int prefix_units;
    int first_tail;    // unit of visible tail nodes
    int tail_units;
    int tail_nodes;    // visible tail nodes in the list
    float* record;     // for its sums; null: the output is final
};

// The slot of row `row` of unit `unit` of the task; -1 if there is none.
template <class Tile>
__device__ __forceinline__ int slot_of(const Task& task, const unsigned char* memory, int unit, int row) {
    if (unit < task.prefix_units) {
        const int slot = (task.first_unit + unit) * Tile::kKeys + row;
        return slot < task.prefix ? slot : -1;
    }
    const int index = (task.first_tail + unit - task.prefix_units) * Tile::kKeys + row;
    if (unit >= task.prefix_units + task.tail_units || index >= task.tail_nodes) {
        return -1;
    }
    return task.prefix + reinterpret_cast<const uint16_t*>(memory + Tile::kTail)[index];
}

// Copies one unit, 16 bytes at a time. A thread has column chunk threadIdx % 8 of every plane, of the rows
// threadIdx / 8 and 32 further; copy(i) is one of them, plane by plane.
template <class Tile>
struct Copier {
    const unsigned char* latent[Tile::kCopyRows];
    const unsigned char* rope[Tile::kCopyRows];
    int bytes[Tile::kCopyRows];  // 16, or 0 for zeros
    uint32_t to;
    bool any;

    __device__ __forceinline__ void copy(int index) const {
        if (!any) {
            return;
        }
        const int row = index % Tile::kCopyRows;
        const int plane = index / Tile::kCopyRows;
        const unsigned char* from = plane == kValuePlanes ? rope[row] : latent[row] + plane * kPlaneRow;
        ptx::copy_16(to + plane * Tile::kKeyPlaneBytes + row * 32 * kPlaneRow, from, bytes[row]);
    }

    template <int kFirst, int kLast>
    __device__ __forceinline__ void copy_planes() const {
#pragma unroll
        for (int i = kFirst * Tile::kCopyRows; i < kLast * Tile::kCopyRows; ++i) {
            copy(i);
        }
    }
};

// Looks up pages one unit ahead of the copies, so that no copy waits for the block table.
template <class Tile>
struct Pages {
    int page[Tile::kCopyRows];
    int in_page[Tile::kCopyRows];  // -1: no such key

    __device__ __forceinline__ void look_up(const Problem& problem, const Task& task,
                                            const unsigned char* memory, int unit) {
        const int32_t* table = problem.block_table + static_cast<int64_t>(task.request) * problem.M;
#pragma unroll
        for (int i = 0; i < Tile::kCopyRows; ++i) {
            const int slot = slot_of<Tile>(task, memory, unit, threadIdx.x / 8 + 32 * i);
            const int index = static_cast<int>((__umulhi(slot, problem.page_magic) + slot) >> problem.page_shift);
            page[i] = slot >= 0 ? table[index] : 0;
            in_page[i] = slot >= 0 ? slot - index * problem.S : -1;
        }
    }

    __device__ __forceinline__ Copier<Tile> copier(const Problem& problem, const Task& task, int unit,
                                                   uint32_t stage) const {
        Copier<Tile> copier;
        const int chunk = threadIdx.x % 8;
        copier.any = unit < task.prefix_units + task.tail_units;
        copier.to = stage + chunk_offset(threadIdx.x / 8, chunk);
#pragma unroll
        for (int i = 0; i < Tile::kCopyRows; ++i) {
            const int row = max(in_page[i], 0);
            copier.bytes[i] = in_page[i] >= 0 ? 16 : 0;
            copier.latent[i] = problem.latent + static_cast<int64_t>(page[i]) * problem.latent_page +
                               (row * problem.latent_slot + chunk * 16);
            copier.rope[i] = problem.rope + static_cast<int64_t>(page[i]) * problem.rope_page +
                             (row * problem.rope_slot + chunk * 16);
        }
        return copier;
    }
};

// Query rows of the tile: the first planes to their place, the held ones to the last stage.
template <class Tile>
__device__ __forceinline__ void copy_query(const Problem& problem, const Task& task, uint32_t memory) {
    const int64_t first = static_cast<int64_t>(task.request) * problem.N * problem.Hq + task.first_row;
    const int chunk = threadIdx.x % 8;
#pragma unroll
    for (int i = 0; i < Tile::kRows / 32; ++i) {
        const int row = threadIdx.x / 8 + 32 * i;
        const bool live = row < task.rows;
        const unsigned char* from =
            reinterpret_cast<const unsigned char*>(problem.q + (first + (live ? row : 0)) * kColumns) +
            chunk * 16;
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane) {
            const uint32_t to = plane < Tile::kQueryPlanes
                                    ? memory + plane * Tile::kQueryPlaneBytes
                                    : memory + Tile::kStages + (Tile::kStageCount - 1) * Tile::kStageBytes +
                                          (plane - Tile::kQueryPlanes) * Tile::kQueryPlaneBytes;
            ptx::copy_16(to + chunk_offset(row, chunk), from + plane * kPlaneRow, live ? 16 : 0);
        }
    }
}

// The nodes of the request whose tail rows some row of the tile sees, in rising order, to Tile::kTail.
// Returns their number. Called by all threads; ends with a barrier.
//
// Every warp looks at all mask words of the tile's nodes, four words of eight nodes at a time, so that nobody
// waits for anybody; the nodes of a word are listed by one warp.
template <class Tile>
__device__ __forceinline__ int list_tail(const Problem& problem, const Task& task, unsigned char* memory) {
    uint16_t* list = reinterpret_cast<uint16_t*>(memory + Tile::kTail);
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int words = (task.live + 31) / 32;
    const int first_node = task.first_row / problem.Hq;
    const int last_node = (task.first_row + task.rows - 1) / problem.Hq;
    const uint32_t* mask = problem.tree_mask + static_cast<int64_t>(task.request) * problem.N * problem.W;
    int count = 0;
#pragma unroll 1
    for (int first = 0; first < words; first += 4) {
        const int own_word = first + lane % 4;
        uint32_t seen = 0;
        for (int node = first_node + lane / 4; own_word < words && node <= last_node; node += 8) {
            seen |= mask[static_cast<int64_t>(node) * problem.W + own_word];
        }
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
            seen |= __shfl_xor_sync(0xffffffffu, seen, step);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int word = first + i;
            const int left = task.live - word * 32;
            const uint32_t inside = left >= 32 ? 0xffffffffu : left > 0 ? (1u << left) - 1u : 0u;
            const uint32_t bits = __shfl_sync(0xffffffffu, seen, i) & inside;
            if (word % kWarps == warp && (bits >> lane & 1u) != 0) {
                list[count + __popc(bits & ((1u << lane) - 1u))] = static_cast<uint16_t>(word * 32 + lane);
            }
            count += __popc(bits);
        }
    }
    __syncthreads();
    return count;
}

}  // namespace mma
}  // namespace ddtree
