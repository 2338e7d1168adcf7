// Runs the threads of one block.
#pragma once

#include "records.h"

namespace emu EMU_HIDDEN {

constexpr size_t kMaxSharedBytes = 227 * 1024;  // what a block can have after the opt-in

// Not a byte more than asked for, so that AddressSanitizer sees an access off by one.
void* allocate_exactly(size_t bytes);

enum class Order { Forward, Reverse, Random };

struct Random {  // splitmix64
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    unsigned below(unsigned n) { return static_cast<unsigned>((next() >> 32) * n >> 32); }
};

// Runs the block that `block` describes (call, dimensions, dynamic memory) to its end. On a failure
// the threads are dropped where they stand, and block.failure says why.
void run_block(Block& block, Order order, uint64_t seed);

// Destroys what ThreadSanitizer knows about the block's threads.
void forget_threads(Block& block);

// Completes the warp operations whose lanes have all arrived, or sets block.failure.
void release_warp(Block& block, Warp& warp);

// Completes the block's barrier if every thread waits there, or sets block.failure.
void release_barrier(Block& block);

inline unsigned first_lane(uint32_t lanes) { return static_cast<unsigned>(__builtin_ctz(lanes)); }

// The thread of a warp's lane: fibers and warps stand in the same order.
inline Fiber& fiber_of(Block& block, const Warp& warp, unsigned lane) {
    return block.fibers[static_cast<unsigned>(&warp - block.warps) * kLanes + lane];
}

}  // namespace emu
