// Where things lie: permuted planes in shared memory, fragments in records, pages in the pool. Pure integer
// arithmetic, the same on host and device.
//
// No CUDA in here: tests compile it with a host compiler.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define DDTREE_LAYOUT __host__ __device__ constexpr
#else
#define DDTREE_LAYOUT constexpr
#endif

namespace ddtree {
namespace layout {

constexpr int kPlaneRow = 128;  // bytes of a row in a plane: 64 columns
constexpr int kThreads = 256;   // of an attention block

// Offset of 16-byte chunk `chunk` (0..7) of row `row` in a plane. Eight consecutive rows, or eight chunks of a
// row, meet all banks of shared memory once. It is also the 128-byte swizzle of wgmma.
DDTREE_LAYOUT int chunk_offset(int row, int chunk) { return row * kPlaneRow + ((chunk ^ (row & 7)) << 4); }

// A record holds the sums of a part of a tile as fragments of four floats: rows r and r + 8, columns c and
// c + 1, in the order in which threads hold them. Rows 16 block .. and columns 8 group .. are 32 fragments in
// a row, from here on; fragment 4 (r % 8) + (c % 8) / 2 of them is the one of r and c.
//
// mma.sync: a warp has all rows and 64 columns. wgmma: a warp has 16 rows and 256 columns.
DDTREE_LAYOUT int mma_fragment(int block, int group) {
    return (block * 8 + group % 8) * kThreads + group / 8 * 32;
}

DDTREE_LAYOUT int wgmma_fragment(int block, int group) {
    return ((group / 32 * 4 + block) * 32 + group % 32) * 32;
}

// slot / S for 0 <= slot < 2^31 and 1 <= S <= 256 without a division:
// (upper 32 bits of slot * magic + slot) >> shift.
struct PageDivisor {
    uint32_t magic;
    uint32_t shift;
};

DDTREE_LAYOUT PageDivisor page_divisor(int S) {
    uint32_t shift = 0;
    while ((1 << shift) < S) {
        ++shift;
    }
    return {static_cast<uint32_t>(((static_cast<uint64_t>(1u << shift) - S) << 32) / S + 1), shift};
}

}  // namespace layout
}  // namespace ddtree
