// Memory of a block: exact, filled, shared, limited; and the stack of a thread.
#include <vector>

#include "check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

__global__ void dynamic_bounds(size_t bytes) {
    DYN_SMEM(char, s);
    EXPECT(reinterpret_cast<uintptr_t>(s) % 16 == 0);
#ifdef __SANITIZE_ADDRESS__
    EXPECT(!__asan_address_is_poisoned(s + bytes - 1));
    EXPECT(__asan_address_is_poisoned(s + bytes));
#endif
    for (size_t i = 0; i < bytes; ++i) s[i] = 1;
}

CHECK(dynamic_memory_is_exact) {
    for (size_t bytes = 1; bytes <= 40; ++bytes) {
        EXPECT(LAUNCH(dynamic_bounds, 1, 1, bytes, nullptr, bytes) == cudaSuccess);
    }
}

__global__ void expect_fill(int fill) {
    DYN_SMEM(unsigned char, s);
    SHARED(unsigned char, a, 5);
    SHARED(unsigned short, b, 3);
    EXPECT(sizeof a == 5);
    for (int i = 0; i < 7; ++i) EXPECT(s[i] == fill);
    for (int i = 0; i < 5; ++i) EXPECT(a[i] == fill);
    for (int i = 0; i < 3; ++i) EXPECT(b[i] == fill * 0x101);
    s[3] = a[4] = b[2] = 42;  // the next block must not find it
}

CHECK(every_block_starts_filled) {
    for (int fill : {0, 0xff, 0x5a}) {
        emu_configure("forward", 0, fill, 2);
        EXPECT(LAUNCH(expect_fill, 8, 1, 7, nullptr, fill) == cudaSuccess);
    }
}

CHECK(static_memory_is_one_for_all_threads) {
    int out[64];
    EXPECT(LAUNCH(shared_by_all, 3, 64, 0, nullptr, out) == cudaSuccess);
    for (int t = 0; t < 64; ++t) EXPECT(out[t] == 63 - t);
}

__global__ void too_much_static() {
    SHARED(char, a, 48 * 1024);
    SHARED(char, b, 1);
    b[0] = a[0];
}

CHECK(static_memory_has_a_limit) {
    EXPECT(LAUNCH(too_much_static, 1, 1, 0, nullptr) == cudaErrorLaunchFailure);
    EXPECT(report_says("48 KiB"));
}

__global__ void large_frame(int* out) {
    volatile int frame[12 * 1024];
    for (int i = 0; i < 12 * 1024; ++i) frame[i] = i;
    __syncthreads();
    out[threadIdx.x] = frame[threadIdx.x];
}

CHECK(a_thread_has_48_KiB_of_stack) {
    std::vector<int> out(1024);
    EXPECT(LAUNCH(large_frame, 1, 1024, 0, nullptr, out.data()) == cudaSuccess);
    for (int t = 0; t < 1024; ++t) EXPECT(out[t] == t);
}
