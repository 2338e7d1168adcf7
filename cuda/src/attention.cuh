// The pieces of verify_attn: what a block keeps in shared memory, which keys a tile shows, and the score
// of one key.
#pragma once

#include "common.cuh"

namespace ddtree {

constexpr int kMaxWarps = 8;
constexpr int kVector = 8;  // bf16 elements in one 16-byte load
constexpr int kParts = 4;   // partial sums of a score

// Floats from one head's query to the next. The tail is zeros: latent and rope parts are each read in whole
// vectors, and may end anywhere.
__host__ __device__ __forceinline__ int query_stride(int Dk) {
    return (ceil_div(Dk, kVector) + 1) * kVector;
}

// Shared memory of a block. Each warp has its own tile; the merge area is used one head at a time.
template <int kHeads>
struct AttentionMemory {
    double* warp_total;     // [warps]              denominator of each warp
    int64_t* value_offset;  // [warps, 32]          value row of each key of the tile
    float* query;           // [kHeads, query_stride]
    float* weight;          // [warps, kHeads, 32]  unnormalised probabilities of the tile
    float* warp_peak;       // [warps]              largest score of each warp
    float* warp_value;      // [warps, Dv]          weighted values of each warp

    static size_t bytes(int warps, int Dk, int Dv) {
        return sizeof(double) * warps + sizeof(int64_t) * warps * kWarp +
               sizeof(float) * (kHeads * query_stride(Dk) + warps * (kHeads * kWarp + 1 + Dv));
    }

    __device__ AttentionMemory(unsigned char* memory, int warps, int Dk) {
        warp_total = reinterpret_cast<double*>(memory);
        value_offset = reinterpret_cast<int64_t*>(warp_total + warps);
        query = reinterpret_cast<float*>(value_offset + warps * kWarp);
        weight = query + kHeads * query_stride(Dk);
        warp_peak = weight + warps * kHeads * kWarp;
        warp_value = warp_peak + warps;
    }
};

// The 32 keys of one tile: the slot of the first, and a bit for every one that the node sees.
struct Tile {
    int32_t first;
    uint32_t visible;
};

// Prefix tiles come first, then one tile for each word of the node's mask.
__device__ __forceinline__ Tile tile_at(int index, int32_t prefix, int live, const uint32_t* mask) {
    const int prefix_tiles = ceil_div(prefix, kWarp);
    if (index < prefix_tiles) {
        return {index * kWarp, low_bits(prefix - index * kWarp)};
    }
    const int word = index - prefix_tiles;
    return {prefix + word * kWarp, mask[word] & low_bits(live - word * kWarp)};
}

// Where a row stands: page and slot in the page. Strides count elements.
struct Place {
    int64_t page;
    int64_t slot;

    __device__ int64_t offset(int64_t page_stride, int64_t slot_stride) const {
        return page * page_stride + slot * slot_stride;
    }
};

// Eight consecutive elements of a row as floats; elements from `count` on are 0 and not read.
__device__ __forceinline__ void load_elements(const uint16_t* row, int count, bool aligned,
                                              float (&element)[kVector]) {
    if (aligned) {
        const uint4 packed = *reinterpret_cast<const uint4*>(row);
        const uint32_t words[kVector / 2] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
        for (int i = 0; i < kVector / 2; ++i) {
            element[2 * i] = __uint_as_float(words[i] << 16);
            element[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
            element[i] = i < count ? bf16_to_float(row[i]) : 0.0f;
        }
    }
}

// part[h] += query[h] . row over `width` elements, element e into partial sum e % kParts.
template <int kHeads>
__device__ __forceinline__ void add_dot(const uint16_t* row, const float* query, int stride, int width,
                                        bool aligned, float (&part)[kHeads][kParts]) {
    for (int first = 0; first < width; first += kVector) {
        float key[kVector];
        load_elements(row + first, width - first, aligned, key);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
            const float* q = query + h * stride + first;
#pragma unroll
            for (int i = 0; i < kVector; ++i) {
                part[h][i % kParts] += q[i] * key[i];
            }
        }
    }
}

}  // namespace ddtree
