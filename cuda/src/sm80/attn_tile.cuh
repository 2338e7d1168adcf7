// The shapes of a tile, its place in shared memory, and which thread holds what.
//
// Everything that ldmatrix reads lies in planes: 64 columns of all rows, 128 bytes a row, the 16-byte chunks
// of a row permuted by the row's number, so that eight consecutive rows never share a bank. A key row of 576
// columns is nine planes; the first eight are the value, the ninth is the rope part.
//
// Eight warps. Scores: each warp takes 32 rows, some keys, and a part of the depth (`kDepthWarps` warps each
// sum up other columns and then exchange halves or quarters). Values: each warp takes all rows and one plane.
#pragma once

#include <cstdint>

#include "attn_layout.h"
#include "attn_plan.h"

namespace ddtree {
namespace mma {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
static_assert(kThreads == layout::kThreads, "");
constexpr int kColumns = 576;
constexpr int kValueColumns = 512;
using layout::kPlaneRow;
constexpr int kPlanes = kColumns * 2 / kPlaneRow;
constexpr int kValuePlanes = kValueColumns * 2 / kPlaneRow;
static_assert(kValuePlanes == kWarps, "one warp for each plane of the value");
constexpr int kMostTailNodes = 1025;
constexpr int kPlaceBytes = 136;
constexpr int kMostMaskWords = (kMostTailNodes + 31) / 32;

using layout::chunk_offset;

template <int kRows_, int kKeys_, int kRowWarps_, int kKeyWarps_, int kDepthWarps_, int kHeldPlanes_, int kStageCount_>
struct Tile {
    static constexpr int kRows = kRows_;  // query rows
    static constexpr int kKeys = kKeys_;  // keys of a unit
    static constexpr int kRowWarps = kRowWarps_;
    static constexpr int kKeyWarps = kKeyWarps_;
    static constexpr int kDepthWarps = kDepthWarps_;
    static constexpr int kHeldPlanes = kHeldPlanes_;  // query planes in registers, the last ones
    static constexpr int kQueryPlanes = kPlanes - kHeldPlanes;  // query planes in shared memory
    static constexpr int kStageCount = kStageCount_;            // units in shared memory
    static constexpr bool kPipelined = kStageCount >= 4;        // values of a unit wait for the next unit's scores
    static constexpr int kAhead = kPipelined ? 2 : 1;           // units that copies run ahead

    static constexpr int kRowBlocks = kRows / 16;
    static constexpr int kKeyBlocks = kKeys / kKeyWarps / 8;  // of a warp's scores
    static constexpr int kPlaneSteps = 4 / kDepthWarps;       // 16-column steps of a warp in each plane
    static constexpr int kSteps = kPlanes * kPlaneSteps;
    static constexpr int kHeldSteps = kHeldPlanes * kPlaneSteps;
    static constexpr int kKept = 2 * kKeyBlocks / kDepthWarps;     // score blocks of a warp after the exchange
    static constexpr int kSharers = kKeyWarps * kDepthWarps / 2;   // warps with scores of the same row
    static constexpr int kCopyRows = kKeys / 32;                   // key rows that a thread copies
    static constexpr int kMaskWords = kKeys / 32;
    static_assert(kRowWarps * 32 == kRows && kRowWarps * kKeyWarps * kDepthWarps == kWarps, "");
    static_assert(kDepthWarps == 2 || kDepthWarps == 4, "");
    static_assert(kCopyRows * kPlanes == kSteps, "one copy of a thread in each step of the scores");

    static __device__ int fragment(int block, int group) { return layout::mma_fragment(block, group); }

    // Offsets in shared memory.
    static constexpr int kQueryPlaneBytes = kRows * kPlaneRow;
    static constexpr int kKeyPlaneBytes = kKeys * kPlaneRow;
    static constexpr int kStageBytes = kPlanes * kKeyPlaneBytes;
    static constexpr int kStages = kQueryPlanes * kQueryPlaneBytes;
    static constexpr int kExchange = kStages + kStageCount * kStageBytes;  // also statistics, when no scores are in it
    static constexpr int kExchangeBytes = kWarps * (kDepthWarps - 1) * kKept * 512;
    static constexpr int kWeights = kExchange + kExchangeBytes;
    static constexpr int kPeaks = kWeights + kQueryPlaneBytes;
    static constexpr int kPlace = kPeaks + kRows * 4;
    static constexpr int kVisible = kPlace + kPlaceBytes;
    static constexpr int kTail = kVisible + (kRows + 1) * kMaskWords * 4;
    static constexpr int kBytes = kTail + (kMostTailNodes + 1) * 2;
    static_assert(kHeldPlanes * kQueryPlaneBytes <= kStageBytes, "held planes pass through the last stage");
    static_assert((2 * kSharers + 2) * kRows * 4 <= kExchangeBytes && kMostMaskWords * 4 <= kExchangeBytes, "");
};

// sm_90 and sm_100: 227 KB a block. Everywhere: 99 KB, the most of sm_86, sm_89 and sm_120.
using WideTile = Tile<64, 32, 2, 1, 4, 3, 4>;
using NarrowTile = Tile<32, 32, 1, 2, 4, 9, 2>;
static_assert(WideTile::kBytes <= 227 * 1024 && NarrowTile::kBytes <= 99 * 1024, "");

// Place of a thread's warp in the score tile.
template <class Tile>
struct Role {
    int lane;
    int warp;
    int depth;      // which columns
    int key_warp;   // which keys
    int group;      // warps of equal group differ in depth alone
    int kept_row;   // first of the 16 rows that the warp keeps after the exchange
    int kept_key;   // first key that this lane keeps; the next one follows, further ones kept_step later
    int sharer;     // number among the warps that keep keys of these rows

    static constexpr int kKeptStep = Tile::kDepthWarps * 4;  // 8 keys a block, of which each warp keeps some

    __device__ __forceinline__ Role() {
        lane = threadIdx.x % 32;
        warp = threadIdx.x / 32;
        depth = warp % Tile::kDepthWarps;
        group = warp / Tile::kDepthWarps;
        key_warp = group % Tile::kKeyWarps;
        const int half = depth / 2;  // with four depth warps, two keep each row block
        kept_row = group / Tile::kKeyWarps * 32 + depth % 2 * 16;
        kept_key = key_warp * (Tile::kKeys / Tile::kKeyWarps) + half * 8 + lane % 4 * 2;
        sharer = key_warp * (Tile::kDepthWarps / 2) + half;
    }
};

// Where a unit's rows are read from, as ldmatrix wants it.
//   query, weights (a operand) and values (b, transposed): matrices (rows, chunk), (rows + 8, chunk),
//                                                          (rows, chunk + 1), (rows + 8, chunk + 1)
//   keys (b operand): (rows, chunk), (rows, chunk + 1), (rows + 8, chunk), (rows + 8, chunk + 1)
__device__ __forceinline__ int operand_offset(int lane, int first_chunk) {
    return chunk_offset(lane % 16, first_chunk + lane / 16);
}

__device__ __forceinline__ int key_operand_offset(int lane, int first_chunk) {
    return chunk_offset(lane % 8 + lane / 16 * 8, first_chunk + lane / 8 % 2);
}

}  // namespace mma
}  // namespace ddtree
