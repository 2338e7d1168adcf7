#include "launch.h"

#include <pthread.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "report.h"
#include "scheduler.h"
#include "watchdog.h"

namespace emu EMU_HIDDEN {

namespace {

struct Config {
    Order order = Order::Forward;
    uint64_t seed = 0;
    int fill = 0;
    unsigned workers = 1;
};

// A launch on its way. Workers draw tickets; a ticket's block is factor * ticket + offset, modulo
// the number of blocks, which is a permutation while the factor has no divisor in common with it.
struct Launch {
    const LaunchRequest& request;
    Config config;
    uint64_t blocks;
    uint64_t factor = 1, offset = 0;
    uint64_t next_ticket = 0;
    bool failed = false;

    uint64_t block_at(uint64_t ticket) const {
        __extension__ using Wide = unsigned __int128;
        return static_cast<uint64_t>((static_cast<Wide>(factor) * ticket + offset) % blocks);
    }
};

void choose_block_order(Launch& launch) {
    if (launch.config.order == Order::Reverse) {
        launch.factor = launch.offset = launch.blocks - 1;
    } else if (launch.config.order == Order::Random) {
        Random random = {launch.config.seed};
        launch.offset = random.next() % launch.blocks;
        do {
            launch.factor = random.next() % launch.blocks;
        } while (std::gcd(launch.factor, launch.blocks) != 1);
    }
}

// The records and stacks of one OS thread. They grow to the largest block it ran, and stay.
struct Worker {
    Block* block = static_cast<Block*>(calloc(1, sizeof(Block)));
    ~Worker() {
        forget_threads(*block);
        for (const Stack& stack : block->stacks)
            if (stack.bottom) unmap_stack(stack);
        free(block);
    }
    void run(Launch& launch);
};

thread_local Worker this_worker;

EMU_UNSEEN void Worker::run(Launch& launch) {
    const LaunchRequest& request = launch.request;
    const dim3 grid = request.grid;
    const Watchdog watchdog(*block);
    block->block_dim = request.block;
    block->grid_dim = grid;
    block->call = request.call;
    block->call_context = request.context;
    block->fill = launch.config.fill;
    block->dynamic_bytes = request.dynamic_bytes;
    block->dynamic_memory = allocate_exactly(request.dynamic_bytes);
#ifdef EMU_TSAN
    block->scheduler.tsan_fiber = __tsan_get_current_fiber();
#endif
    current_block = block;
    while (!__atomic_load_n(&launch.failed, __ATOMIC_RELAXED)) {
        const uint64_t ticket = __atomic_fetch_add(&launch.next_ticket, 1, __ATOMIC_RELAXED);
        if (ticket >= launch.blocks) break;
        const uint64_t index = launch.block_at(ticket);
        block->block_idx = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                            static_cast<unsigned>(index / grid.x / grid.y)};
        memset(block->dynamic_memory, block->fill, block->dynamic_bytes);
        run_block(*block, launch.config.order, Random{launch.config.seed ^ Random{index}.next()}.next());
        if (block->failure && !__atomic_exchange_n(&launch.failed, true, __ATOMIC_RELAXED))
            report_failure(request, *block);
    }
    current_block = nullptr;
    free(block->dynamic_memory);
}

// Helpers beside the launching thread. They are made when first asked for, and kept.
class Helpers {
public:
    ~Helpers() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            launch_ = nullptr;
            wanted_ = threads_.size();
            ++generation_;
        }
        start_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void run_with(unsigned helpers, Launch& launch) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            launch_ = &launch;
            wanted_ = busy_ = helpers;
            ++generation_;
        }
        while (threads_.size() < helpers) threads_.emplace_back(&Helpers::serve, this, threads_.size());
        start_.notify_all();
        this_worker.run(launch);
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return busy_ == 0; });
    }

private:
    void serve(size_t index) {
        uint64_t seen = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            start_.wait(lock, [&] { return generation_ != seen; });
            seen = generation_;
            if (index >= wanted_) continue;
            if (!launch_) return;
            Launch& launch = *launch_;
            lock.unlock();
            this_worker.run(launch);
            lock.lock();
            if (--busy_ == 0) done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable start_, done_;
    std::vector<std::thread> threads_;
    Launch* launch_ = nullptr;
    size_t wanted_ = 0, busy_ = 0;
    uint64_t generation_ = 0;
};

std::mutex one_launch_at_a_time;
Config config;
std::unique_ptr<Helpers> helpers;
Helpers* of_the_parent;  // a fork takes none of their threads along: a child must not wait for them, nor at its end

Helpers& helpers_of_this_process() {
    [[maybe_unused]] static const int watched =
        pthread_atfork(nullptr, nullptr, [] { of_the_parent = helpers.release(); });
    if (!helpers) helpers = std::make_unique<Helpers>();
    return *helpers;
}

bool within(dim3 d, unsigned x, unsigned y, unsigned z) {
    return d.x >= 1 && d.x <= x && d.y >= 1 && d.y <= y && d.z >= 1 && d.z <= z;
}

}  // namespace

cudaError_t run(const LaunchRequest& request) {
    const dim3 grid = request.grid, block = request.block;
    // On a GPU the opt-in to the memory comes before the launch, and so does its error.
    if (request.dynamic_bytes > kMaxSharedBytes) {
        report_refusal(request, "more dynamic shared memory than a block can have");
        return cudaErrorInvalidValue;
    }
    if (!within(block, 1024, 1024, 64) || block.x * block.y * block.z > kMaxThreads) {
        report_refusal(request, "a block has 1 to 1024 threads, at most (1024,1024,64)");
        return cudaErrorInvalidConfiguration;
    }
    if (!within(grid, 0x7fffffff, 65535, 65535)) {
        report_refusal(request, "a grid has 1 to (2147483647,65535,65535) blocks");
        return cudaErrorInvalidConfiguration;
    }

    const std::lock_guard<std::mutex> lock(one_launch_at_a_time);
    Launch launch = {request, config, static_cast<uint64_t>(grid.x) * grid.y * grid.z};
    choose_block_order(launch);
    if (config.workers == 1) this_worker.run(launch);
    else helpers_of_this_process().run_with(config.workers - 1, launch);
    return launch.failed ? cudaErrorLaunchFailure : cudaSuccess;
}

// order: "forward", "reverse" or "random" with a seed, for the threads of a block and the blocks of a
// grid. fill: the byte that shared memory starts with. Returns 1 on a bad value and changes nothing.
extern "C" __attribute__((visibility("default"))) int emu_configure(const char* order, uint64_t seed, int fill,
                                                                    int workers) {
    Config wanted;
    if (strcmp(order, "forward") == 0) wanted.order = Order::Forward;
    else if (strcmp(order, "reverse") == 0) wanted.order = Order::Reverse;
    else if (strcmp(order, "random") == 0) wanted.order = Order::Random;
    else return 1;
    if (fill < 0 || fill > 255 || workers < 1 || workers > 256) return 1;
    wanted.seed = seed;
    wanted.fill = fill;
    wanted.workers = static_cast<unsigned>(workers);
    const std::lock_guard<std::mutex> lock(one_launch_at_a_time);
    config = wanted;
    return 0;
}

}  // namespace emu
