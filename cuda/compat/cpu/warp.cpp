// Barriers and warp operations are completed here, for all their threads at once: each thread
// parks once per operation, and finds its result when it wakes.
#include "ordering.h"
#include "scheduler.h"

namespace emu EMU_HIDDEN {

EMU_UNSEEN static void fail(Block& block, const Warp& warp, unsigned lane, const char* reason) {
    block.failure = reason;
    block.culprit = &fiber_of(block, warp, lane);
}

EMU_UNSEEN static void meet(Block& block, Warp& warp, uint32_t mask) {
    Meeting meeting(block.scheduler);
    for (uint32_t left = mask; left; left &= left - 1) meeting.arrive(fiber_of(block, warp, first_lane(left)));
    for (uint32_t left = mask; left; left &= left - 1) meeting.leave(fiber_of(block, warp, first_lane(left)));
}

EMU_UNSEEN static void share_result(Warp& warp, uint32_t mask, uint64_t result) {
    for (uint32_t left = mask; left; left &= left - 1) warp.value[first_lane(left)] = result;
}

EMU_UNSEEN static uint32_t lanes_with_predicate(const Warp& warp, uint32_t mask) {
    uint32_t lanes = 0;
    for (uint32_t left = mask; left; left &= left - 1)
        if (warp.value[first_lane(left)]) lanes |= left & -left;
    return lanes;
}

EMU_UNSEEN static void shuffle(Block& block, Warp& warp, uint32_t mask) {
    uint64_t values[kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane) values[lane] = warp.value[lane];
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = first_lane(left), source = warp.source[lane];
        if (!(mask >> source & 1))
            return fail(block, warp, lane, "shuffle reads from a lane that is not in its mask");
        warp.value[lane] = values[source];
    }
}

EMU_UNSEEN static void match(Warp& warp, uint32_t mask) {
    uint64_t values[kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane) values[lane] = warp.value[lane];
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t equal = 0;
        for (uint32_t other = mask; other; other &= other - 1)
            if (values[first_lane(other)] == values[first_lane(left)]) equal |= other & -other;
        warp.value[first_lane(left)] = equal;
    }
}

EMU_UNSEEN static uint32_t reduce(const Warp& warp, uint32_t mask, Op op) {
    uint32_t result = static_cast<uint32_t>(warp.value[first_lane(mask)]);
    for (uint32_t left = mask & (mask - 1); left; left &= left - 1) {
        const uint32_t value = static_cast<uint32_t>(warp.value[first_lane(left)]);
        switch (op) {
            case Op::ReduceAdd: result += value; break;
            case Op::ReduceMin: result = value < result ? value : result; break;
            case Op::ReduceMax: result = value > result ? value : result; break;
            case Op::ReduceAnd: result &= value; break;
            default: result |= value; break;
        }
    }
    return result;
}

EMU_UNSEEN static void complete(Block& block, Warp& warp, uint32_t mask, Op op) {
    switch (op) {
        case Op::SyncWarp: return meet(block, warp, mask);
        case Op::Shuffle: return shuffle(block, warp, mask);
        case Op::Ballot: return share_result(warp, mask, lanes_with_predicate(warp, mask));
        case Op::Any: return share_result(warp, mask, lanes_with_predicate(warp, mask) != 0);
        case Op::All: return share_result(warp, mask, lanes_with_predicate(warp, mask) == mask);
        case Op::MatchAny: return match(warp, mask);
        default: return share_result(warp, mask, reduce(warp, mask, op));
    }
}

EMU_UNSEEN void release_warp(Block& block, Warp& warp) {
    for (uint32_t pending = warp.waiting; pending; ) {
        const unsigned lane = first_lane(pending);
        const uint32_t mask = warp.mask[lane];
        pending &= pending - 1;
        if (mask & ~warp.live)
            return fail(block, warp, lane, "the mask names a lane that has exited or does not exist");
        if (mask & ~warp.waiting) continue;  // somebody is still to come

        // Lanes under other masks may yet be released by their own partners and come here after all.
        bool same_mask = true, same_op = true, same_site = true;
        for (uint32_t left = mask; left; left &= left - 1) {
            const unsigned other = first_lane(left);
            same_mask &= warp.mask[other] == mask;
            same_op &= warp.op[other] == warp.op[lane];
            same_site &= warp.site[other] == warp.site[lane];
        }
        if (!same_mask) continue;
        if (!same_op) return fail(block, warp, lane, "different operations meet under one mask");
        if (!same_site) return fail(block, warp, lane, "one operation at two places meets under one mask");

        complete(block, warp, mask, warp.op[lane]);
        if (block.failure) return;
        warp.waiting &= ~mask;
        warp.runnable |= mask;
        pending &= ~mask;
    }
}

EMU_UNSEEN void release_barrier(Block& block) {
    if (block.at_barrier == 0 || block.at_barrier < block.live) return;
    if (block.live < block.threads) {
        block.failure = "a barrier is waited for while some threads have exited";
        return;
    }
    const Site* site = block.warps[0].site[0];
    const Op op = block.warps[0].op[0];
    unsigned count = 0;
    for (unsigned i = 0; i < block.threads; ++i) {
        const Warp& warp = *block.fibers[i].warp;
        const unsigned lane = i % kLanes;
        if (warp.site[lane] != site) return fail(block, warp, lane, "threads wait at different barriers");
        count += warp.value[lane] != 0;
    }
    const unsigned result = op == Op::SyncThreadsAnd  ? count == block.threads
                            : op == Op::SyncThreadsOr ? count != 0
                                                      : count;
    {
        Meeting meeting(block.scheduler);
        for (unsigned i = 0; i < block.threads; ++i) meeting.arrive(block.fibers[i]);
        for (unsigned i = 0; i < block.threads; ++i) meeting.leave(block.fibers[i]);
    }
    for (unsigned w = 0; w < block.warp_count; ++w) {
        Warp& warp = block.warps[w];
        share_result(warp, warp.at_barrier, result);
        warp.runnable = warp.at_barrier;
        warp.at_barrier = 0;
    }
    block.at_barrier = 0;
}

}  // namespace emu
