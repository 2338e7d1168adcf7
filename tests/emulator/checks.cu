// What the emulator promises beyond the bug zoo. `driver check NAME` runs one; the names are those
// in the CHECK lines.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "compat/compat.h"
#include "driver.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

constexpr unsigned kAll = 0xffffffffu;

static int failures = 0;

static void expect(bool condition, int line, const char* text) {
    if (condition) return;
    printf("checks.cu:%d: not so: %s\n", line, text);
    ++failures;
}
#define EXPECT(condition) expect(condition, __LINE__, #condition)

struct Check {
    const char* name;
    void (*run)();
};
static std::vector<Check>& all_checks() {
    static std::vector<Check> checks;
    return checks;
}
static bool enlist(const char* name, void (*run)()) {
    all_checks().push_back({name, run});
    return true;
}
#define CHECK(name)                                      \
    static void name();                                  \
    static const bool enlisted_##name = enlist(#name, name); \
    static void name()

int check(const char* name) {
    for (const Check& c : all_checks()) {
        if (std::string(c.name) != name) continue;
        c.run();
        if (failures) printf("last report:\n%s", emu_last_report());
        return failures != 0;
    }
    printf("no such check: %s\n", name);
    return 2;
}

static bool report_says(const char* words) { return std::string(emu_last_report()).find(words) != std::string::npos; }

// ---- launches ---------------------------------------------------------------------------------

__global__ void nothing() {}

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

// ---- shared memory ----------------------------------------------------------------------------

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

__global__ void shared_by_all(int* out) {
    SHARED(int, a, 64);
    a[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = a[63 - threadIdx.x];
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

// ---- orders and workers -----------------------------------------------------------------------

__global__ void take_number(unsigned* ticket, int* numbers) {
    numbers[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<int>(atomicAdd(ticket, 1u));
}

// When each thread ran, counted over the whole grid.
static std::vector<int> numbers(const char* order, uint64_t seed, int blocks, int threads) {
    emu_configure(order, seed, 0, 1);
    unsigned ticket = 0;
    std::vector<int> result(blocks * threads);
    EXPECT(LAUNCH(take_number, blocks, threads, 0, nullptr, &ticket, result.data()) == cudaSuccess);
    return result;
}

CHECK(thread_orders) {
    const int n = 100;
    const std::vector<int> forward = numbers("forward", 0, 1, n), reverse = numbers("reverse", 0, 1, n);
    for (int t = 0; t < n; ++t) {
        EXPECT(forward[t] == t);
        EXPECT(reverse[t] == n - 1 - t);
    }
    const std::vector<int> random = numbers("random", 1, 1, n);
    EXPECT(random == numbers("random", 1, 1, n));
    EXPECT(random != numbers("random", 2, 1, n));
    EXPECT(random != forward && random != reverse);

    // Two blocks of one launch must not run their threads alike.
    std::vector<int> two = numbers("random", 1, 2, n);
    const int first = *std::min_element(two.begin(), two.begin() + n);
    const int second = *std::min_element(two.begin() + n, two.end());
    bool alike = true;
    for (int t = 0; t < n; ++t) alike &= two[t] - first == two[n + t] - second;
    EXPECT(!alike);
}

CHECK(block_orders) {
    for (int n : {1, 2, 12, 97}) {
        const std::vector<int> forward = numbers("forward", 0, n, 1), reverse = numbers("reverse", 0, n, 1);
        for (int b = 0; b < n; ++b) {
            EXPECT(forward[b] == b);
            EXPECT(reverse[b] == n - 1 - b);
        }
        std::vector<int> random = numbers("random", 5, n, 1);
        if (n > 12) EXPECT(random != forward && random != numbers("random", 6, n, 1));
        std::sort(random.begin(), random.end());
        EXPECT(random == forward);  // each block once
    }
}

__global__ void drift(int* step, int* largest_lead) {
    const int warp = threadIdx.x / 32;
    for (int i = 0; i < 50; ++i) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            step[warp] = i;
            *largest_lead = max(*largest_lead, step[warp] - step[1 - warp]);
        }
    }
}

#ifndef __SANITIZE_THREAD__  // the kernel looks at other warps on purpose
CHECK(random_order_lets_warps_drift_apart) {
    int step[2] = {}, lead = 0;
    emu_configure("forward", 0, 0, 1);
    EXPECT(LAUNCH(drift, 1, 64, 0, nullptr, step, &lead) == cudaSuccess);
    EXPECT(lead <= 1);
    step[0] = step[1] = lead = 0;
    emu_configure("random", 3, 0, 1);
    EXPECT(LAUNCH(drift, 1, 64, 0, nullptr, step, &lead) == cudaSuccess);
    EXPECT(lead >= 3);
}
#endif

__global__ void who_runs(std::thread::id* ids) {
    std::thread::id& id = ids[blockIdx.x * blockDim.x + threadIdx.x];
    id = std::this_thread::get_id();
    if (threadIdx.x == 0) usleep(1000);
    __syncthreads();
    EXPECT(id == std::this_thread::get_id());
}

CHECK(workers_share_the_blocks) {
    for (int workers : {1, 2, 4, 2, 1}) {
        emu_configure("forward", 0, 0, workers);
        const int blocks = 64, threads = 8;
        std::vector<std::thread::id> ids(blocks * threads);
        EXPECT(LAUNCH(who_runs, blocks, threads, 0, nullptr, ids.data()) == cudaSuccess);
        for (int i = 0; i < blocks * threads; ++i) EXPECT(ids[i] == ids[i / threads * threads]);
        EXPECT(std::set<std::thread::id>(ids.begin(), ids.end()).size() == static_cast<size_t>(workers));
    }
}

__global__ void add_up(unsigned* sum, unsigned long long* wide, float* real) {
    atomicAdd(sum, 1u);
    atomicAdd(wide, 1ull << 32);
    atomicAdd(real, 0.5f);
}

CHECK(atomics_across_workers) {
    emu_configure("random", 1, 0, 2);
    unsigned sum = 0;
    unsigned long long wide = 0;
    float real = 0;
    EXPECT(LAUNCH(add_up, 64, 64, 0, nullptr, &sum, &wide, &real) == cudaSuccess);
    EXPECT(sum == 4096 && wide == 4096ull << 32 && real == 2048);
}

CHECK(launches_from_two_host_threads) {
    const auto launch_often = [] {
        for (int i = 0; i < 20; ++i) {
            int out[64];
            EXPECT(LAUNCH(shared_by_all, 2, 64, 0, nullptr, out) == cudaSuccess);
            EXPECT(out[0] == 63);
        }
    };
    emu_configure("forward", 0, 0, 1);
    std::thread other(launch_often);
    launch_often();
    other.join();
}

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer does not start threads after a fork
CHECK(a_forked_child_launches_too) {
    emu_configure("forward", 0, 0, 2);
    std::vector<std::thread::id> ids(64);
    EXPECT(LAUNCH(who_runs, 8, 8, 0, nullptr, ids.data()) == cudaSuccess);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(LAUNCH(who_runs, 8, 8, 0, nullptr, ids.data()) == cudaSuccess ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(status == 0);
}
#endif

static long mapped_pages() {
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages;
}

CHECK(stacks_do_not_pile_up) {
    emu_configure("forward", 0, 0, 1);
    const auto alternate = [] {
        for (int threads : {64, 128, 1, 256}) EXPECT(LAUNCH(nothing, 1, threads, 0, nullptr) == cudaSuccess);
    };
    alternate();
    const long before = mapped_pages();
    for (int i = 0; i < 50; ++i) alternate();
    EXPECT(mapped_pages() - before < 1024);  // 4 MiB; the stacks of one launch are 17
}

// ---- errors -----------------------------------------------------------------------------------

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
        EXPECT(report_says("half_of_them_leave") && report_says("checks.cu:"));
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

// ---- waiting for another thread ---------------------------------------------------------------

__global__ void wait_for_flag(volatile int* flag, bool sleep) {
    if (threadIdx.x == 1) *flag = 1;
    if (threadIdx.x == 0) {
        while (!*flag) {
            if (sleep) __nanosleep(100);
        }
    }
}
__global__ void sleep_for_ever() {
    for (;;) __nanosleep(100);
}

#ifndef __SANITIZE_THREAD__  // it holds back signals, so the watchdog cannot speak; and the flag is a race
CHECK(a_spinning_thread_is_stopped) {
    emu_configure("forward", 0, 0, 2);
    int flag = 0;
    EXPECT(LAUNCH(wait_for_flag, 1, 64, 0, nullptr, &flag, false) == cudaErrorLaunchFailure);
    EXPECT(report_says("it spins") && report_says("found at thread 0"));
    EXPECT(LAUNCH(nothing, 1, 64, 0, nullptr) == cudaSuccess);
    EXPECT(LAUNCH(sleep_for_ever, 1, 64, 0, nullptr) == cudaErrorLaunchFailure);
    EXPECT(report_says("__nanosleep"));
    EXPECT(LAUNCH(nothing, 1, 64, 0, nullptr) == cudaSuccess);
}

CHECK(sleeping_lets_the_others_run) {
    for (const char* order : {"forward", "reverse", "random"}) {
        emu_configure(order, 1, 0, 1);
        int flag = 0;
        EXPECT(LAUNCH(wait_for_flag, 1, 64, 0, nullptr, &flag, true) == cudaSuccess);
    }
}
#endif

// ---- numbers ----------------------------------------------------------------------------------

CHECK(bf16_rounds_to_nearest_even) {
    const auto round = [](unsigned bits) { return __bfloat16_as_ushort(__float2bfloat16(__uint_as_float(bits))); };
    EXPECT(round(0x3f800000) == 0x3f80);  // 1
    EXPECT(round(0x3f808000) == 0x3f80);  // a tie, to even below
    EXPECT(round(0x3f818000) == 0x3f82);  // a tie, to even above
    EXPECT(round(0x3f808001) == 0x3f81);
    EXPECT(round(0x3f807fff) == 0x3f80);
    EXPECT(round(0x80000000) == 0x8000);
    EXPECT(round(0x00008000) == 0x0000);  // subnormal, a tie
    EXPECT(round(0x00018000) == 0x0002);
    EXPECT(round(0x7f7fffff) == 0x7f80);  // rounds to infinity
    EXPECT(round(0xff800000) == 0xff80);
    EXPECT(round(0x7f800001) == 0x7fff);  // every NaN
    EXPECT(round(0xffc12345) == 0x7fff);
}
