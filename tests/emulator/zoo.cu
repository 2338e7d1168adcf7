// The bug zoo: small kernels, most of them wrong on purpose, that show what the emulator and the
// sanitizers find. docs/emulator.md has the table, tests/test_emulator.py asserts it.
//
//   driver verdict CASE        prints which of the plain detectors speak: sched, order, fill
//   driver run CASE WORKERS    runs the case once, for the sanitizers
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "compat/compat.h"
#include "driver.h"

constexpr unsigned kAll = 0xffffffffu;
constexpr int kThreads = 64;
constexpr int kBlocks = 64;  // where blocks matter: enough for two workers to meet

// What a case works on. Separate allocations of exact size, so that bounds are seen.
struct Memory {
    int* out;          // kThreads
    int* word;         // 1
    int* partial;      // kBlocks
    unsigned* ticket;  // 1, back at 0 after each launch
};

// ---- inside a block ---------------------------------------------------------------------------

__global__ void missing_barrier(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    s[t] = t + 1;
    m.out[t] = s[(t + 1) % kThreads];
}

__global__ void barrier_after_exit(Memory m) {
    const int t = threadIdx.x;
    m.out[t] = t;
    if (t >= 32) return;
    __syncthreads();
}

__global__ void two_barriers(Memory m) {
    const int t = threadIdx.x;
    m.out[t] = t;
    if (t < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

__global__ void mask_names_exited_lanes(Memory m) {
    const int t = threadIdx.x;
    m.out[t] = t;
    if (t % 32 >= 16) return;
    m.out[t] = __shfl_xor_sync(kAll, t, 1);
}

__global__ void ballot_meets_shuffle(Memory m) {
    const int t = threadIdx.x;
    if (t % 2) {
        m.out[t] = __ballot_sync(kAll, t % 3);
    } else {
        m.out[t] = __shfl_sync(kAll, t, 0);
    }
}

__global__ void dynamic_read_off_by_one(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    s[t] = t;
    __syncthreads();
    const int next = s[t + 1];
    m.out[t] = s[t] + (next == 123456789);
}

__global__ void dynamic_uninitialised(Memory m) {
    DYN_SMEM(int, s);
    m.out[threadIdx.x] = s[threadIdx.x];
}

__global__ void global_write_off_by_one(Memory m) {
    m.out[threadIdx.x + 1] = 7;
}

__global__ void write_write_race(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    s[0] = t;
    __syncthreads();
    m.out[t] = s[0];
}

__global__ void read_then_write_race(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    s[t] = t;
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        const int next = s[(t + 1) % kThreads];  // the neighbour may be one step ahead
        s[t] = next + i;
        __syncthreads();
    }
    m.out[t] = s[t];
}

__global__ void non_atomic_add(Memory m) { *m.word = *m.word + 1; }

__global__ void not_in_own_mask(Memory m) {
    m.out[threadIdx.x] = 1;
    __syncwarp(0x1);
}

__global__ void correct_warp_exchange(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    for (int i = 0; i < 4; ++i) {
        s[t] = t + i;
        __syncwarp();
        m.out[t] = s[t ^ 1];
        __syncwarp();
    }
}

__global__ void shuffle_as_fence(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    s[t] = t;
    const int other = __shfl_xor_sync(kAll, t, 1);
    m.out[t] = s[other];
}

__global__ void dynamic_odd_size_off_by_one(Memory m) {
    DYN_SMEM(char, s);
    const int t = threadIdx.x;
    if (t < 9) s[t] = 1;
    __syncthreads();
    m.out[t] = s[t < 9 ? t + 1 : 0] == 99;
}

__device__ void exchange_in_half(int* s, unsigned half, int t, int times) {
    for (int i = 0; i < times; ++i) {
        s[t] += i;
        __syncwarp(half);
        const int other = s[t ^ 1];
        __syncwarp(half);
        s[t] = other;
    }
}

__global__ void correct_half_warps(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    const bool low = t % 32 < 16;
    s[t] = t;
    exchange_in_half(s, low ? 0x0000ffffu : 0xffff0000u, t, low ? 1 : 4);
    __syncwarp();
    m.out[t] = s[t ^ 16];
}

__global__ void reads_other_half(Memory m) {
    DYN_SMEM(int, s);
    const int t = threadIdx.x;
    s[t] = t;
    __syncwarp(t % 32 < 16 ? 0x0000ffffu : 0xffff0000u);
    m.out[t] = s[t ^ 16];
}

__global__ void static_uninitialised(Memory m) {
    SHARED(int, s, kThreads);
    m.out[threadIdx.x] = s[threadIdx.x];
}

// ---- across blocks ----------------------------------------------------------------------------

__global__ void non_atomic_add_per_block(Memory m) {
    if (threadIdx.x == 0) *m.word = *m.word + 1;
}

// The last block to take a ticket adds up what all of them stored.
template <bool kFence>
__global__ void last_block_reduce(Memory m) {
    SHARED(int, is_last, 1);
    const int t = threadIdx.x;
    const int sum = __reduce_add_sync(kAll, t);
    if (t == 0) {
        m.partial[blockIdx.x] = sum + static_cast<int>(blockIdx.x);
        if (kFence) __threadfence();
        is_last[0] = atomicAdd(m.ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last[0] && t == 0) {
        if (kFence) __threadfence();
        int total = 0;
        for (unsigned i = 0; i < gridDim.x; ++i) total += m.partial[i];
        m.out[0] = total;
        atomicExch(m.ticket, 0u);
    }
}

// ---- the driver -------------------------------------------------------------------------------

struct Case {
    int number;
    void (*kernel)(Memory);
    int blocks;
    size_t dynamic_bytes;
};

constexpr size_t kInts = kThreads * sizeof(int);
const Case kCases[] = {
    {1, missing_barrier, 1, kInts},
    {2, barrier_after_exit, 1, 0},
    {3, two_barriers, 1, 0},
    {4, mask_names_exited_lanes, 1, 0},
    {5, ballot_meets_shuffle, 1, 0},
    {6, dynamic_read_off_by_one, 1, kInts},
    {7, dynamic_uninitialised, 1, kInts},
    {8, global_write_off_by_one, 1, 0},
    {9, write_write_race, 1, kInts},
    {10, read_then_write_race, 1, kInts},
    {11, non_atomic_add, kBlocks, 0},
    {12, not_in_own_mask, 1, 0},
    {13, correct_warp_exchange, 1, kInts},
    {14, shuffle_as_fence, 1, kInts},
    {15, non_atomic_add_per_block, kBlocks, 0},
    {16, last_block_reduce<true>, kBlocks, 0},
    {17, last_block_reduce<false>, kBlocks, 0},
    {18, dynamic_odd_size_off_by_one, 1, 9},
    {19, correct_half_warps, 1, kInts},
    {20, reads_other_half, 1, kInts},
    {21, static_uninitialised, 1, 0},
};

struct Result {
    bool failed;
    std::vector<int> values;
    bool operator!=(const Result& other) const { return values != other.values; }
};

template <class T>
T* zeros(size_t n) { return static_cast<T*>(calloc(n, sizeof(T))); }

static Result run(const Case& c) {
    Memory m = {zeros<int>(kThreads), zeros<int>(1), zeros<int>(kBlocks), zeros<unsigned>(1)};
    const cudaError_t error = LAUNCH(c.kernel, c.blocks, kThreads, c.dynamic_bytes, nullptr, m);
    Result result = {error != cudaSuccess, {}};  // a failed launch promises nothing about its outputs
    if (!result.failed) {
        result.values.assign(m.out, m.out + kThreads);
        result.values.push_back(*m.word);
    }
    free(m.out);
    free(m.word);
    free(m.partial);
    free(m.ticket);
    return result;
}

static Result run(const Case& c, const char* order, uint64_t seed, int fill) {
    emu_configure(order, seed, fill, 1);
    return run(c);
}

static const Case* find(int number) {
    for (const Case& c : kCases)
        if (c.number == number) return &c;
    return nullptr;
}

int zoo_verdict(int number) {
    const Case* c = find(number);
    if (!c) return 2;
    const Result first = run(*c, "forward", 0, 0);
    bool order = first != run(*c, "reverse", 0, 0);
    for (uint64_t seed = 1; seed <= 3; ++seed) order |= first != run(*c, "random", seed, 0);
    const bool fill = first != run(*c, "forward", 0, 0xff);
    printf("%s%s%s\n", first.failed ? "sched " : "", order ? "order " : "", fill ? "fill " : "");
    printf("%s", emu_last_report());
    return 0;
}

int zoo_run(int number, int workers) {
    const Case* c = find(number);
    if (!c || emu_configure("forward", 0, 0, workers) != 0) return 2;
    run(*c);
    return 0;
}
