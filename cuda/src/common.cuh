// What several kernels share: contract limits, bf16 conversion, small index helpers.
#pragma once

#include <cstdint>

#include "compat/compat.h"
#include "ddtree.h"

namespace ddtree {

constexpr int kWarp = 32;
constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kNone = -1;

// Limits of contract v1 (inclusive).
constexpr int kMaxBatch = 65535;
constexpr int kMaxDepth = 32;
constexpr int kMaxCandidates = 1024;
constexpr int kMaxNodes = 1025;
constexpr int kMaxPageSlots = 256;
constexpr int kMaxKeyWidth = 576;
constexpr int kMaxValueWidth = 512;

__host__ __device__ __forceinline__ int ceil_div(int value, int step) {
    return value / step + (value % step != 0);
}

// bf16 is the upper half of a float, so widening is exact.
__device__ __forceinline__ float bf16_to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest even; every NaN becomes one quiet NaN.
__device__ __forceinline__ uint16_t float_to_bf16(float value) {
    return __bfloat16_as_ushort(__float2bfloat16(value));
}

// A word with its `count` lowest bits set; all of them from 32 on, none below 1.
__device__ __forceinline__ uint32_t low_bits(int count) {
    if (count >= 32) {
        return 0xffffffffu;
    }
    return count > 0 ? (1u << count) - 1u : 0u;
}

}  // namespace ddtree
