// Host side: is an argument struct fit to be launched?
//
// Only what the host can see is checked. Array contents live in the target's memory; what the kernels do
// about bad contents is part of the contract (tree_status, accept_status) or a precondition.
#pragma once

#include <limits>

#include "common.cuh"

namespace ddtree {

// The caller's struct may be newer and longer than ours, never shorter.
template <class Args>
bool readable(const Args* args) {
    return args != nullptr && args->struct_bytes >= sizeof(Args);
}

template <class... Pointers>
bool present(Pointers... pointers) {
    return (... && (pointers != nullptr));
}

inline bool within(int64_t value, int64_t lowest, int64_t highest) {
    return lowest <= value && value <= highest;
}

// Blocks are numbered along x alone, which has room for 2^31 - 1 of them.
inline bool launchable(int64_t blocks) {
    return within(blocks, 1, std::numeric_limits<int32_t>::max());
}

inline int32_t launch_status(cudaError_t error) {
    return error == cudaSuccess ? DDTREE_OK : DDTREE_LAUNCH_FAILED;
}

}  // namespace ddtree
