// Orders of threads and blocks, workers, host threads, forks.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "check.h"

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
CHECK(a_forked_child_launches_and_ends_too) {
    emu_configure("forward", 0, 0, 2);
    std::vector<std::thread::id> ids(64);
    EXPECT(LAUNCH(who_runs, 8, 8, 0, nullptr, ids.data()) == cudaSuccess);
    for (const bool launches : {true, false}) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            if (!launches) exit(0);  // with whatever a library does at the end of a process
            _exit(LAUNCH(who_runs, 8, 8, 0, nullptr, ids.data()) == cudaSuccess ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT(WIFEXITED(status));  // not by the alarm
        EXPECT(!launches || status == 0);  // at an end LeakSanitizer misses the threads that own what it finds
    }
}
#endif

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
