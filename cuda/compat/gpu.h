// The nvcc side of compat.h: the toolkit's headers, the macros and what goes with them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#define SHARED(T, name, N) __shared__ T name[N]

#define DYN_SMEM(T, name)                                               \
    extern __shared__ __align__(16) unsigned char compat_dynamic_smem[]; \
    T* name = reinterpret_cast<T*>(compat_dynamic_smem)

// Before a wait: brings what is at `address` to the L2, and the translation of its page. It may still be written:
// writes meet in the L2.
__device__ __forceinline__ void will_read(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

#define LAUNCH(kernel, ...) compat::launch(kernel, false, __VA_ARGS__)
#ifdef DDTREE_PLAIN_LAUNCHES  // to measure what the overlap saves
#define LAUNCH_DEPENDENT(kernel, ...) LAUNCH(kernel, __VA_ARGS__)
#else
#define LAUNCH_DEPENDENT(kernel, ...) compat::launch(kernel, true, __VA_ARGS__)
#endif

// Waits for the end of the kernels in front, their writes included; nothing to wait for after a plain launch.
__device__ __forceinline__ void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

// Once all blocks have called it or ended, a dependent kernel behind may begin (and wait).
__device__ __forceinline__ void grid_dependency_release() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

namespace compat {

// Kernels for older architectures do not wait, so nothing is launched dependently if this file is compiled for one.
constexpr bool every_architecture_waits() {
    for (const int architecture : {__CUDA_ARCH_LIST__}) {
        if (architecture < 900) {
            return false;
        }
    }
    return true;
}

// A block may use 48 KiB without asking, static arrays included; more needs an opt-in per kernel.
constexpr size_t kDefaultSharedMemory = 40 * 1024;

template <class... Params, class... Args>
cudaError_t launch(void (*kernel)(Params...), bool dependent, dim3 grid, dim3 block, size_t smem,
                   cudaStream_t stream, Args&&... args) {
    if (smem > kDefaultSharedMemory) {
        const cudaError_t error =
            cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem));
        if (error != cudaSuccess) {
            cudaGetLastError();  // reported here, so the next launch must not find it again
            return error;
        }
    }
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = smem;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = dependent && every_architecture_waits() ? 1 : 0;
    const cudaError_t error =
        cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...);
    cudaGetLastError();  // reported here
    return error;
}

}  // namespace compat
