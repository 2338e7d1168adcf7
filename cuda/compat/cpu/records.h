// The records of a running block. Plain arrays, allocated once per worker and used again for every
// block: the scheduler allocates nothing per round.
#pragma once

#include "fiber.h"
#include "types.h"

namespace emu EMU_HIDDEN {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

// A textual place that synchronises.
struct Site {
    const char* file;
    int line;
    int number;  // tells apart two on one line
};

enum class Op : uint8_t {
    SyncThreads, SyncThreadsCount, SyncThreadsAnd, SyncThreadsOr,  // the barriers of a block
    SyncWarp, Shuffle, Ballot, Any, All, MatchAny,                 // the rest belong to a warp
    ReduceAdd, ReduceMin, ReduceMax, ReduceAnd, ReduceOr,
};

// Sets of lanes, and what each parked lane waits for. A live lane in none of the three sets is
// running or about to.
struct Warp {
    uint32_t live;        // exists and has not exited
    uint32_t runnable;    // to be run in a coming round
    uint32_t waiting;     // parked in a warp operation
    uint32_t at_barrier;  // parked in a barrier of the block
    const Site* site[kLanes];
    uint64_t value[kLanes];  // brought to the operation, then its result
    uint32_t mask[kLanes];
    uint32_t source[kLanes];
    Op op[kLanes];
};

struct Fiber : Context {
    uint3 thread_idx;
    unsigned lane;
    Warp* warp;
};

// Static shared memory of the running block, by site.
struct SharedArray {
    const Site* site;
    void* memory;
    SharedArray* next;
};

struct Block {
    uint3 block_idx;
    dim3 block_dim, grid_dim;
    void* dynamic_memory;
    SharedArray* shared;
    size_t shared_bytes, dynamic_bytes;
    int fill;

    unsigned threads, warp_count;
    unsigned live;        // threads that have not exited
    unsigned at_barrier;  // threads parked in a barrier

    Fiber* queue[kMaxThreads];  // the threads of this round, in order
    unsigned queued, next;

    void (*call)(const void*);
    const void* call_context;

    const char* failure;   // why the launch must fail, or null
    const Fiber* culprit;  // the thread that did it, or null

    // For the watchdog, which looks at them from a signal handler.
    volatile bool in_kernel;     // kernel code runs, not the emulator
    volatile bool slept;         // some thread called __nanosleep since the last look
    volatile bool stalled;       // no progress between the last two looks
    volatile uint64_t progress;  // operations reached
    uint64_t progress_at_look;

    char fence_key;  // ThreadSanitizer's handle for __threadfence_block

    Context scheduler;
    Stack stacks[kMaxThreads];
    Fiber fibers[kMaxThreads];
    Warp warps[kMaxThreads / kLanes];
};

// Not the faster initial-exec model: with it a library's whole thread-local storage, plain __shared__
// arrays included, must fit the little that the loader keeps free, or Python cannot load it. A fiber
// never changes its OS thread, so a compiler may keep these addresses across a switch.
extern __thread Fiber* current_fiber;
extern __thread Block* current_block;

}  // namespace emu
