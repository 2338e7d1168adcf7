// What a running kernel sees: its indices, shared memory, barriers and warp operations.
#pragma once

#include <cstring>
#include <type_traits>

#include "records.h"

// One static record per macro expansion, known by its address: two barriers on one line differ.
#define EMU_SITE                                                        \
    (__extension__({                                                    \
        static const emu::Site site_ = {__FILE__, __LINE__, __COUNTER__}; \
        &site_;                                                         \
    }))
#define EMU_AT (emu::At{EMU_SITE})

#define threadIdx (emu::thread_idx())
#define blockIdx (emu::block_idx())
#define blockDim (emu::block_dim())
#define gridDim (emu::grid_dim())

// A reference to an array, so that sizeof and the sanitizers' bounds checks see N elements.
#define SHARED(T, name, N) \
    T(&name)[N] = *static_cast<T(*)[N]>(emu::shared_memory(EMU_SITE, sizeof(T[N])))
#define DYN_SMEM(T, name) T* name = static_cast<T*>(emu::dynamic_memory())

#define __syncthreads() EMU_AT.syncthreads()
#define __syncthreads_count(predicate) EMU_AT.syncthreads_count(predicate)
#define __syncthreads_and(predicate) EMU_AT.syncthreads_and(predicate)
#define __syncthreads_or(predicate) EMU_AT.syncthreads_or(predicate)
#define __syncwarp(...) EMU_AT.syncwarp(__VA_ARGS__)
#define __shfl_sync(...) EMU_AT.shfl(__VA_ARGS__)
#define __shfl_up_sync(...) EMU_AT.shfl_up(__VA_ARGS__)
#define __shfl_down_sync(...) EMU_AT.shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(...) EMU_AT.shfl_xor(__VA_ARGS__)
#define __ballot_sync(mask, predicate) EMU_AT.ballot(mask, predicate)
#define __any_sync(mask, predicate) EMU_AT.any(mask, predicate)
#define __all_sync(mask, predicate) EMU_AT.all(mask, predicate)
#define __match_any_sync(mask, value) EMU_AT.match_any(mask, value)
#define __reduce_add_sync(mask, value) EMU_AT.reduce_add(mask, value)
#define __reduce_min_sync(mask, value) EMU_AT.reduce_min(mask, value)
#define __reduce_max_sync(mask, value) EMU_AT.reduce_max(mask, value)
#define __reduce_and_sync(mask, value) EMU_AT.reduce_and(mask, value)
#define __reduce_or_sync(mask, value) EMU_AT.reduce_or(mask, value)

namespace emu EMU_HIDDEN {

// By value: ThreadSanitizer must not see a kernel read the emulator's memory.
EMU_UNSEEN inline uint3 thread_idx() { return current_fiber->thread_idx; }
EMU_UNSEEN inline unsigned lane_id() { return current_fiber->lane; }
EMU_UNSEEN inline uint3 block_idx() { return current_block->block_idx; }
EMU_UNSEEN inline dim3 block_dim() { return current_block->block_dim; }
EMU_UNSEEN inline dim3 grid_dim() { return current_block->grid_dim; }
EMU_UNSEEN inline void* dynamic_memory() { return current_block->dynamic_memory; }

void* shared_memory(const Site* site, size_t bytes);

// Parks the calling thread until its barrier or warp operation is complete. `value` is what it
// brings (a predicate, a shuffled value), `source` the lane a shuffle reads from.
uint64_t synchronize(const Site* site, Op op, uint32_t mask, uint64_t value, uint32_t source);

void yield();
[[noreturn]] void stop(const char* reason);

enum class Scope { Block, Device };
void fence(Scope scope);

// The operations of one call site.
struct At {
    const Site* site;

    void syncthreads() const { synchronize(site, Op::SyncThreads, kAllLanes, 0, 0); }
    int syncthreads_count(int p) const { return vote(Op::SyncThreadsCount, kAllLanes, p); }
    int syncthreads_and(int p) const { return vote(Op::SyncThreadsAnd, kAllLanes, p); }
    int syncthreads_or(int p) const { return vote(Op::SyncThreadsOr, kAllLanes, p); }

    void syncwarp(unsigned mask = kAllLanes) const { synchronize(site, Op::SyncWarp, mask, 0, 0); }

    // `width` cuts the warp into segments. At a segment's ends up and down keep the own value; xor
    // reads earlier segments, but keeps the own value for later ones. Of a distance the hardware
    // takes the lowest five bits.
    template <class T>
    T shfl(unsigned mask, T value, int source, int width = warpSize) const {
        const unsigned last = last_in_segment(width);
        return shuffle(mask, value, (lane_id() & ~last) | (static_cast<unsigned>(source) & last));
    }
    template <class T>
    T shfl_up(unsigned mask, T value, unsigned delta, int width = warpSize) const {
        const unsigned lane = lane_id(), place = lane & last_in_segment(width);
        return shuffle(mask, value, delta % kLanes <= place ? lane - delta % kLanes : lane);
    }
    template <class T>
    T shfl_down(unsigned mask, T value, unsigned delta, int width = warpSize) const {
        const unsigned lane = lane_id(), last = last_in_segment(width);
        return shuffle(mask, value, delta % kLanes <= last - (lane & last) ? lane + delta % kLanes : lane);
    }
    template <class T>
    T shfl_xor(unsigned mask, T value, int lane_mask, int width = warpSize) const {
        const unsigned lane = lane_id(), source = lane ^ (static_cast<unsigned>(lane_mask) % kLanes);
        return shuffle(mask, value, source <= (lane | last_in_segment(width)) ? source : lane);
    }

    unsigned ballot(unsigned mask, int p) const {
        return static_cast<unsigned>(synchronize(site, Op::Ballot, mask, p != 0, 0));
    }
    int any(unsigned mask, int p) const { return vote(Op::Any, mask, p); }
    int all(unsigned mask, int p) const { return vote(Op::All, mask, p); }

    template <class T>
    unsigned match_any(unsigned mask, T value) const {
        return static_cast<unsigned>(synchronize(site, Op::MatchAny, mask, to_bits(value), 0));
    }

    template <class T>
    T reduce_add(unsigned mask, T value) const { return reduce(Op::ReduceAdd, mask, value, 0); }
    template <class T>
    T reduce_min(unsigned mask, T value) const { return reduce(Op::ReduceMin, mask, value, sign_bit<T>); }
    template <class T>
    T reduce_max(unsigned mask, T value) const { return reduce(Op::ReduceMax, mask, value, sign_bit<T>); }
    unsigned reduce_and(unsigned mask, unsigned value) const { return reduce(Op::ReduceAnd, mask, value, 0); }
    unsigned reduce_or(unsigned mask, unsigned value) const { return reduce(Op::ReduceOr, mask, value, 0); }

private:
    template <class T>
    static uint64_t to_bits(T value) {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "warp operations move 4 or 8 bytes");
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof value);
        return bits;
    }

    static unsigned last_in_segment(int width) {
        if (width < 1 || width > warpSize || (width & (width - 1)))
            stop("the width of a shuffle is not 1, 2, 4, 8, 16 or 32");
        return static_cast<unsigned>(width) - 1;
    }

    int vote(Op op, unsigned mask, int p) const {
        return static_cast<int>(synchronize(site, op, mask, p != 0, 0));
    }

    template <class T>
    T shuffle(unsigned mask, T value, unsigned source) const {
        const uint64_t bits = synchronize(site, Op::Shuffle, mask, to_bits(value), source);
        memcpy(&value, &bits, sizeof value);
        return value;
    }

    // Flipping the sign bit maps the order of int onto that of unsigned, so minimum and maximum
    // need one comparison only.
    template <class T>
    static constexpr unsigned sign_bit = std::is_signed_v<T> ? 0x80000000u : 0;

    template <class T>
    T reduce(Op op, unsigned mask, T value, unsigned flip) const {
        static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
        const unsigned bits = static_cast<unsigned>(value) ^ flip;
        return static_cast<T>(static_cast<unsigned>(synchronize(site, op, mask, bits, 0)) ^ flip);
    }
};

}  // namespace emu

// Which lanes run together is nothing that CUDA promises. "The caller alone" is a legal answer that
// suits code that asks for nothing more, and exposes code that takes the whole warp for granted.
inline unsigned __activemask() { return 1u << emu::lane_id(); }

inline void __nanosleep(unsigned) { emu::yield(); }

template <class T>
inline T __ldg(const T* address) { return *address; }
template <class T>
inline T __ldcg(const T* address) { return *address; }
template <class T>
inline void __stcs(T* address, T value) { *address = value; }
