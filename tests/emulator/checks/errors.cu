// What ends a launch: barriers, warp operations, deadlocks; and what must not.
#include "check.h"

__global__ void half_of_them_leave() {
    if (threadIdx.x >= 32) return;
    __syncthreads();
}

CHECK(an_error_ends_the_launch_and_nothing_else) {
    for (int workers : {1, 2}) {
        emu_configure("forward", 0, 0, workers);
        emu_clear_report();
        EXPECT(*emu_last_report() == 0);
        EXPECT(LAUNCH(half_of_them_leave, 50, 64, 0, nullptr) == cudaErrorLaunchFailure);
        EXPECT(report_says("half_of_them_leave") && report_says("errors.cu:"));
        EXPECT(report_says("threads 0-31: waits in __syncthreads") && report_says("threads 32-63: exited"));
        int out[64] = {};
        EXPECT(LAUNCH(shared_by_all, 1, 64, 0, nullptr, out) == cudaSuccess);
        EXPECT(out[0] == 63);
        EXPECT(report_says("half_of_them_leave"));  // kept until it is cleared
    }
    emu_clear_report();
    EXPECT(*emu_last_report() == 0);
}

CHECK(failed_launches_leak_nothing) {
    emu_configure("forward", 0, 0, 1);
    LAUNCH(half_of_them_leave, 1, 64, 0, nullptr);
    const long before = mapped_pages();
    for (int i = 0; i < 30; ++i) EXPECT(LAUNCH(half_of_them_leave, 1, 64, 0, nullptr) == cudaErrorLaunchFailure);
    EXPECT(mapped_pages() - before < 256);
}

// clang-format off
__global__ void two_barriers_on_one_line() {
    if (threadIdx.x < 32) __syncthreads(); else __syncthreads();
}
__global__ void two_shuffles_on_one_line(int* out) {
    int v = threadIdx.x;
    if (v < 16) v = __shfl_sync(kAll, v, 0); else v = __shfl_sync(kAll, v, 1);
    *out = v;
}
// clang-format on

CHECK(sites_on_one_line_differ) {
    int out;
    EXPECT(LAUNCH(two_barriers_on_one_line, 1, 64, 0, nullptr) == cudaErrorLaunchFailure);
    EXPECT(report_says("threads wait at different barriers"));
    EXPECT(report_says("threads 0-31:") && report_says("threads 32-63:"));
    EXPECT(LAUNCH(two_shuffles_on_one_line, 1, 32, 0, nullptr, &out) == cudaErrorLaunchFailure);
    EXPECT(report_says("one operation at two places meets under one mask"));
}

__global__ void warp_step(unsigned mask, int source, int width) {
    if (mask >> (threadIdx.x % 32) & 1) __shfl_sync(mask, 1, source, width);
}

CHECK(warp_operations_are_checked) {
    EXPECT(LAUNCH(warp_step, 1, 40, 0, nullptr, 0xffu, 0, 32) == cudaSuccess);
    EXPECT(LAUNCH(warp_step, 1, 40, 0, nullptr, kAll, 0, 32) == cudaErrorLaunchFailure);
    EXPECT(report_says("does not exist") && report_says("mask 0xffffffff"));
    EXPECT(LAUNCH(warp_step, 1, 32, 0, nullptr, 0xffu, 9, 32) == cudaErrorLaunchFailure);
    EXPECT(report_says("not in its mask") && report_says("reads lane 9"));
    EXPECT(LAUNCH(warp_step, 1, 32, 0, nullptr, kAll, 0, 12) == cudaErrorLaunchFailure);
    EXPECT(report_says("width"));
}

__global__ void overlapping_masks() { __syncwarp(threadIdx.x < 16 ? 0x0001ffffu : 0xffff8000u); }
__global__ void one_never_comes() {
    if (threadIdx.x == 3) __syncthreads();
    else __syncwarp();
}

CHECK(deadlocks_are_reported) {
    EXPECT(LAUNCH(overlapping_masks, 1, 32, 0, nullptr) == cudaErrorLaunchFailure);
    EXPECT(report_says("deadlock") && report_says("mask 0x0001ffff") && report_says("mask 0xffff8000"));
    EXPECT(LAUNCH(one_never_comes, 1, 32, 0, nullptr) == cudaErrorLaunchFailure);
    EXPECT(report_says("deadlock") && report_says("thread 3: waits in __syncthreads"));
}

__global__ void disjoint_masks(int* out) {
    const int t = threadIdx.x;
    const unsigned half = t < 16 ? 0x0000ffffu : 0xffff0000u;
    int v = t;
    for (int i = 0; i < (t < 16 ? 3 : 8); ++i) v += __shfl_sync(half, v, t < 16 ? 0 : 16);
    __syncwarp();
    out[t] = v;
}

CHECK(disjoint_masks_go_their_own_way) {
    for (const char* order : {"forward", "reverse", "random"}) {
        emu_configure(order, 1, 0, 1);
        int out[32];
        EXPECT(LAUNCH(disjoint_masks, 1, 32, 0, nullptr, out) == cudaSuccess);
        EXPECT(out[0] == 0 && out[15] == 15 && out[16] == 16 * 256);
    }
}

__global__ void active_lanes(unsigned* out) { out[threadIdx.x] = __activemask(); }

CHECK(the_active_mask_promises_only_the_caller) {
    unsigned out[32];
    EXPECT(LAUNCH(active_lanes, 1, 32, 0, nullptr, out) == cudaSuccess);
    for (int t = 0; t < 32; ++t) EXPECT(out[t] == 1u << t);
}
