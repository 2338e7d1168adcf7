// Qualifiers, index and vector types, error codes.
#pragma once

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// Accepted so that foreign sources compile. Own kernels use SHARED and DYN_SMEM: this storage is
// per OS thread, keeps the bytes of the block before, and no sanitizer knows its bounds.
#define __shared__ static thread_local

constexpr int warpSize = 32;

enum cudaError_t {  // the toolkit's values
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorLaunchFailure = 719,
};

// LAUNCH hands back its own error, so none is ever left over.
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

using cudaStream_t = struct CUstream_st*;

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

#define COMPAT_VECTOR2(T, name, alignment)   \
    struct alignas(alignment) name {         \
        T x, y;                              \
    };                                       \
    inline name make_##name(T x, T y) { return {x, y}; }
#define COMPAT_VECTOR4(T, name, alignment)   \
    struct alignas(alignment) name {         \
        T x, y, z, w;                        \
    };                                       \
    inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }

COMPAT_VECTOR2(int, int2, 8)
COMPAT_VECTOR2(unsigned, uint2, 8)
COMPAT_VECTOR2(float, float2, 8)
COMPAT_VECTOR2(double, double2, 16)
COMPAT_VECTOR4(int, int4, 16)
COMPAT_VECTOR4(unsigned, uint4, 16)
COMPAT_VECTOR4(float, float4, 16)

#undef COMPAT_VECTOR2
#undef COMPAT_VECTOR4
