// Launches: limits, arguments, indices, configuration.
#include <vector>

#include "check.h"

CHECK(launch_limits) {
    const auto launch = [](dim3 grid, dim3 block, size_t smem) {
        return LAUNCH(nothing, grid, block, smem, nullptr);
    };
    EXPECT(launch(1, 1024, 0) == cudaSuccess);
    EXPECT(launch(1, dim3(16, 1, 64), 0) == cudaSuccess);
    EXPECT(launch(1, 1025, 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(1, 0, 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(1, dim3(1, 1, 65), 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(1, dim3(1024, 1024, 64), 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(0, 1, 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(dim3(1, 0, 1), 1, 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(dim3(1, 65536), 1, 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(dim3(1, 1, 65536), 1, 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(dim3(0x80000000u), 1, 0) == cudaErrorInvalidConfiguration);
    EXPECT(launch(1, 32, 227 * 1024) == cudaSuccess);
    EXPECT(launch(1, 32, 227 * 1024 + 1) == cudaErrorInvalidValue);
    EXPECT(report_says("nothing"));
}

__global__ void store_sum(int* out, long long a, float b) { out[threadIdx.x] = static_cast<int>(a + b); }

CHECK(arguments_are_evaluated_once) {
    int calls = 0, out[64] = {};
    const auto next = [&calls] { return ++calls; };
    EXPECT(LAUNCH(store_sum, 2, 64, 0, nullptr, out, next(), 2.5) == cudaSuccess);  // int and double, converted
    EXPECT(calls == 1);
    for (int value : out) EXPECT(value == 3);
}

template <int kA, int kB>
__global__ void template_kernel(int* out) { *out = kA * 10 + kB; }

CHECK(template_kernels) {
    int out = 0;
    EXPECT(LAUNCH((template_kernel<4, 2>), 1, 1, 0, nullptr, &out) == cudaSuccess);
    EXPECT(out == 42);
}

__global__ void indices(uint3* out) {
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[block * 60 + thread] = uint3{threadIdx.x + 100 * blockIdx.x, threadIdx.y + 100 * blockIdx.y,
                                     threadIdx.z + 100 * blockIdx.z};
}

CHECK(indices_in_three_dimensions) {
    for (const char* order : {"forward", "reverse", "random"}) {
        emu_configure(order, 7, 0, 2);
        std::vector<uint3> out(24 * 60);
        EXPECT(LAUNCH(indices, dim3(2, 3, 4), dim3(3, 4, 5), 0, nullptr, out.data()) == cudaSuccess);
        for (unsigned b = 0; b < 24; ++b) {
            for (unsigned t = 0; t < 60; ++t) {
                const uint3 v = out[b * 60 + t];
                EXPECT(v.x == t % 3 + 100 * (b % 2));
                EXPECT(v.y == t / 3 % 4 + 100 * (b / 2 % 3));
                EXPECT(v.z == t / 12 + 100 * (b / 6));
            }
        }
    }
}

CHECK(configure_refuses_bad_values) {
    EXPECT(emu_configure("forward", 0, 0, 1) == 0);
    EXPECT(emu_configure("sideways", 0, 0, 1) == 1);
    EXPECT(emu_configure("random", 0, 256, 1) == 1);
    EXPECT(emu_configure("random", 0, -1, 1) == 1);
    EXPECT(emu_configure("random", 0, 0, 0) == 1);
}
