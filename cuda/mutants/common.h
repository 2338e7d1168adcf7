// What the kernels of this folder share. They stand alone: nothing here comes from ../src.
#pragma once

#include <cstdint>

#include "compat/compat.h"
#include "ddtree.h"

namespace mutants {

constexpr int kNone = -1;
constexpr int kWarp = 32;
constexpr int kThreads = 2 * kWarp;  // of every block: in a single warp a missing barrier would go unseen on a GPU
constexpr int kLast = kThreads - 1;  // the thread that works alone, in another warp than the first nodes' threads
constexpr int kMaxDepth = 32;
constexpr int kMaxNodes = 1025;
constexpr int kMaxValueWidth = 512;

__host__ __device__ __forceinline__ int words_of(int bits) { return (bits + 31) / 32; }

__host__ __device__ __forceinline__ int64_t within(int64_t value, int64_t lowest, int64_t highest) {
    return value < lowest ? lowest : value > highest ? highest : value;
}

__device__ __forceinline__ float bf16_to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

__device__ __forceinline__ uint16_t float_to_bf16(float value) {
    return __bfloat16_as_ushort(__float2bfloat16(value));
}

template <class Args>
bool readable(const Args* args) {
    return args != nullptr && args->struct_bytes >= sizeof(Args);
}

// Holds threads back, where a mutant does without the barrier or the wait that would make others wait for them:
// a race that hardware would mostly win by luck is lost every time. A turn is a fifth of a millisecond. On the GPU
// only: the emulator runs threads in both orders.
__device__ __forceinline__ void come_late(bool late, int turns = 1) {
#ifdef __CUDA_ARCH__
    for (const long long start = clock64(); late && clock64() - start < turns * 400000LL;) {
    }
#else
    (void)late;
    (void)turns;
#endif
}

inline int32_t status_of(cudaError_t error) { return error == cudaSuccess ? DDTREE_OK : DDTREE_LAUNCH_FAILED; }

}  // namespace mutants
