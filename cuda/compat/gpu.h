// The nvcc side of compat.h: the toolkit's headers and the three macros.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#define SHARED(T, name, N) __shared__ T name[N]

#define DYN_SMEM(T, name)                                               \
    extern __shared__ __align__(16) unsigned char compat_dynamic_smem[]; \
    T* name = reinterpret_cast<T*>(compat_dynamic_smem)

#define LAUNCH(kernel, ...) compat::launch(kernel, __VA_ARGS__)

namespace compat {

// What a kernel may use without asking; more needs an opt-in per kernel.
constexpr size_t kDefaultSharedMemory = 48 * 1024;

template <class... Params, class... Args>
cudaError_t launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t smem, cudaStream_t stream,
                   Args&&... args) {
    if (smem > kDefaultSharedMemory) {
        const cudaError_t error =
            cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem));
        if (error != cudaSuccess) {
            cudaGetLastError();  // reported here, so the next launch must not find it again
            return error;
        }
    }
    kernel<<<grid, block, smem, stream>>>(static_cast<Params>(std::forward<Args>(args))...);
    return cudaGetLastError();
}

}  // namespace compat
