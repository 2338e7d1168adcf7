// A shared library as Python loads it, with kernels as other projects write them.
#include "compat/compat.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// Plain __shared__ is thread-local storage here: much more than a loader keeps free.
__global__ void reverse(float* values) {
    __shared__ float tile[64][64];
    tile[threadIdx.x][0] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = tile[63 - threadIdx.x][0];
}

EXPORT int run_reverse(float* values) { return LAUNCH(reverse, 1, 64, 0, nullptr, values); }

__global__ void look_at_fill(int* out) {
    SHARED(unsigned char, s, 1);
    *out = s[0];
}

EXPORT int fill_seen() {
    int out = -1;
    LAUNCH(look_at_fill, 1, 1, 0, nullptr, &out);
    return out;
}

// It ends by itself after some seconds, so that a watchdog that sleeps does not stop a test.
__global__ void poll(volatile int* flag) {
    for (long left = 1L << 33; left && !*flag; --left) {}
}

EXPORT int spin() {
    int flag = 0;
    return LAUNCH(poll, 1, 1, 0, nullptr, &flag);
}
