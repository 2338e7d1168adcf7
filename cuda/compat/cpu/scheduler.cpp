#include "scheduler.h"

#include <cstdlib>
#include <cstring>

#include "ordering.h"
#include "thread.h"

namespace emu EMU_HIDDEN {

__thread Fiber* current_fiber;
__thread Block* current_block;

// ---- what a thread calls ----------------------------------------------------------------------

// A thread that parks hands over to the next of the round itself, which costs one switch instead
// of two. The last one goes back to the scheduler.
EMU_UNSEEN static inline void hand_over(Block& block, Fiber& self, bool ends) {
    const bool last = block.next == block.queued || block.failure;
    Fiber* next = last ? nullptr : block.queue[block.next++];
    current_fiber = next;
    switch_context(self, last ? block.scheduler : *next, ends);
    block.in_kernel = true;
}

EMU_UNSEEN uint64_t synchronize(const Site* site, Op op, uint32_t mask, uint64_t value, uint32_t source) {
    Block& block = *current_block;
    Fiber& self = *current_fiber;
    Warp& warp = *self.warp;
    const unsigned lane = self.lane;
    const uint32_t bit = 1u << lane;
    block.in_kernel = false;
    block.progress = block.progress + 1;
    warp.site[lane] = site;
    warp.op[lane] = op;
    warp.mask[lane] = mask;
    warp.value[lane] = value;
    warp.source[lane] = source;
    if (op <= Op::SyncThreadsOr) {
        warp.at_barrier |= bit;
        ++block.at_barrier;
    } else {
        warp.waiting |= bit;
        if (!(mask & bit)) stop("the caller is not in its own mask");
    }
    hand_over(block, self, false);
    return warp.value[lane];
}

EMU_UNSEEN void yield() {
    Block& block = *current_block;
    block.in_kernel = false;
    block.slept = true;
    if (block.stalled) stop("no thread got anywhere but to __nanosleep for too long");
    Fiber& self = *current_fiber;
    self.warp->runnable |= 1u << self.lane;
    hand_over(block, self, false);
}

// Gives up the launch. The thread is left as it stands and never runs again.
EMU_UNSEEN void stop(const char* reason) {
    Block& block = *current_block;
    block.in_kernel = false;
    block.failure = reason;
    block.culprit = current_fiber;
    hand_over(block, *current_fiber, true);
    abort();  // not reached
}

EMU_UNSEEN static void fiber_main() {
    Block& block = *current_block;
    Fiber& self = *current_fiber;
    arrived(self);
    block.in_kernel = true;
    block.call(block.call_context);
    block.in_kernel = false;
    block.progress = block.progress + 1;
    self.warp->live &= ~(1u << self.lane);
    --block.live;
    hand_over(block, self, true);
    abort();  // not reached
}

void* allocate_exactly(size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 16, bytes) != 0) abort();
    return memory;
}

EMU_UNSEEN void* shared_memory(const Site* site, size_t bytes) {
    Block& block = *current_block;
    for (SharedArray* array = block.shared; array; array = array->next)
        if (array->site == site) return array->memory;

    // ptxas refuses the first, the launch the second.
    block.shared_bytes += bytes;
    if (block.shared_bytes > 48 * 1024) stop("more than 48 KiB of static shared memory");
    if (block.shared_bytes + block.dynamic_bytes > kMaxSharedBytes)
        stop("more shared memory than a block can have");

    block.in_kernel = false;  // the watchdog must not leave malloc half-way
    {
        const Unseen unseen;
        SharedArray* array = static_cast<SharedArray*>(malloc(sizeof(SharedArray)));
        *array = {site, allocate_exactly(bytes), block.shared};
        memset(array->memory, block.fill, bytes);
        block.shared = array;
    }
    block.in_kernel = true;
    return block.shared->memory;
}

EMU_UNSEEN void fence([[maybe_unused]] Scope scope) {
#ifdef EMU_TSAN
    // ThreadSanitizer knows nothing of fences. All that fence in a scope meet at one key instead.
    static char device_key;
    void* key = scope == Scope::Device ? &device_key : &current_block->fence_key;
    __tsan_acquire(key);
    __tsan_release(key);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// ---- what the scheduler does ------------------------------------------------------------------

EMU_UNSEEN static void start_threads(Block& block) {
    const dim3 dim = block.block_dim;
    block.threads = block.live = dim.x * dim.y * dim.z;
    block.warp_count = (block.threads + kLanes - 1) / kLanes;
    block.at_barrier = 0;
    block.shared = nullptr;
    block.shared_bytes = 0;
    block.failure = nullptr;
    block.culprit = nullptr;
    for (unsigned w = 0; w < block.warp_count; ++w) {
        Warp& warp = block.warps[w];
        const unsigned lanes = block.threads - w * kLanes;
        warp.live = warp.runnable = lanes < kLanes ? (1u << lanes) - 1 : kAllLanes;
        warp.waiting = warp.at_barrier = 0;
    }
    for (unsigned i = 0; i < block.threads; ++i) {
        Fiber& fiber = block.fibers[i];
        if (!block.stacks[i].bottom) block.stacks[i] = map_stack();
        prepare(fiber, block.stacks[i], i, fiber_main);
        fiber.thread_idx = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
        fiber.lane = i % kLanes;
        fiber.warp = &block.warps[i / kLanes];
#ifdef EMU_TSAN
        if (!fiber.tsan_fiber) fiber.tsan_fiber = __tsan_create_fiber(0);  // dear, so kept for later blocks
#endif
    }
    Meeting meeting(block.scheduler);  // what happened here so far is before what the threads do
    meeting.arrive(block.scheduler);
    for (unsigned i = 0; i < block.threads; ++i) meeting.leave(block.fibers[i]);
}

EMU_UNSEEN void forget_threads([[maybe_unused]] Block& block) {
#ifdef EMU_TSAN
    for (Fiber& fiber : block.fibers) {
        if (fiber.tsan_fiber) __tsan_destroy_fiber(fiber.tsan_fiber);
        fiber.tsan_fiber = nullptr;
    }
#endif
}

EMU_UNSEEN static void end_threads(Block& block) {
    {
        Meeting meeting(block.scheduler);  // what the threads did is before what comes next here
        for (unsigned i = 0; i < block.threads; ++i) meeting.arrive(block.fibers[i]);
        meeting.leave(block.scheduler);
    }
    if (block.failure) forget_threads(block);  // they stand in the middle of some call
    while (SharedArray* array = block.shared) {
        block.shared = array->next;
        free(array->memory);
        free(array);
    }
}

// Queues the runnable threads for one round. In random order some warps sit it out, so that warps
// drift apart instead of marching in step.
EMU_UNSEEN static void fill_queue(Block& block, Order order, Random& random) {
    block.queued = block.next = 0;
    for (unsigned w = 0; w < block.warp_count; ++w) {
        Warp& warp = block.warps[order == Order::Reverse ? block.warp_count - 1 - w : w];
        uint32_t lanes = warp.runnable;
        if (!lanes || (order == Order::Random && random.below(4) == 0)) continue;
        warp.runnable = 0;
        Fiber* first = &fiber_of(block, warp, 0);
        while (lanes) {
            const unsigned lane =
                order == Order::Reverse ? kLanes - 1 - static_cast<unsigned>(__builtin_clz(lanes)) : first_lane(lanes);
            lanes &= ~(1u << lane);
            block.queue[block.queued++] = first + lane;
        }
    }
    if (order == Order::Random) {
        for (unsigned i = block.queued; i > 1; --i) {
            const unsigned j = random.below(i);
            Fiber* fiber = block.queue[i - 1];
            block.queue[i - 1] = block.queue[j];
            block.queue[j] = fiber;
        }
    }
}

EMU_UNSEEN static bool anything_runnable(const Block& block) {
    for (unsigned w = 0; w < block.warp_count; ++w)
        if (block.warps[w].runnable) return true;
    return false;
}

EMU_UNSEEN static void run_round(Block& block) {
    current_fiber = block.queue[block.next++];
    switch_context(block.scheduler, *current_fiber, false);
}

EMU_UNSEEN void run_block(Block& block, Order order, uint64_t seed) {
    Random random = {seed};
    start_threads(block);
    while (block.live && !block.failure) {
        fill_queue(block, order, random);
        if (block.queued) {
            run_round(block);
        } else if (!anything_runnable(block)) {
            block.failure = "deadlock";
        }
        for (unsigned w = 0; w < block.warp_count && !block.failure; ++w)
            if (block.warps[w].waiting) release_warp(block, block.warps[w]);
        if (!block.failure) release_barrier(block);
    }
    end_threads(block);
}

}  // namespace emu
