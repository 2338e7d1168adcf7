// What this library is, and how much workspace its kernels want: attention on tensor cores some, the others
// none.
#include <climits>

#include "attention_config.h"
#include "checks.cuh"

// Set by the build: architectures, or the emulator and its sanitizer.
#ifndef DDTREE_BUILD
#define DDTREE_BUILD "unnamed build"
#endif

namespace ddtree {
namespace {

#ifdef __CUDACC__
constexpr uint32_t kMemorySpace = DDTREE_MEMORY_DEVICE;
#else
constexpr uint32_t kMemorySpace = DDTREE_MEMORY_HOST;
#endif

constexpr uint32_t kCapabilities = DDTREE_CAP_TREE_BUILD | DDTREE_CAP_ATTN_MLA | DDTREE_CAP_ATTN_GQA |
                                   DDTREE_CAP_ATTN_LSE | DDTREE_CAP_TREE_ACCEPT | DDTREE_CAP_STOP_AND_LIMIT |
                                   DDTREE_CAP_KV_COMMIT | DDTREE_CAP_GREEDY_STEP | DDTREE_CAP_PLANTED;

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_query(ddtree_info* info) {
    using namespace ddtree;
    if (!readable(info)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    info->abi_version = DDTREE_ABI_VERSION;
    info->contract_major = DDTREE_CONTRACT_MAJOR;
    info->contract_minor = DDTREE_CONTRACT_MINOR;
    info->memory_space = kMemorySpace;
    info->lse_base = DDTREE_LSE_NATURAL;
    info->capabilities = kCapabilities;
    info->max_B = kMaxBatch;
    info->max_L = kMaxDepth;
    info->max_K = kMaxCandidates;
    info->max_N = kMaxNodes;
    info->max_S = kMaxPageSlots;
    info->max_Hq = INT_MAX;
    info->max_T = INT_MAX;
    info->max_Y = INT_MAX;
    info->description = DDTREE_BUILD;
    return DDTREE_OK;
}

extern "C" int32_t ddtree_workspace_bytes(int32_t kernel, const void* args, uint64_t* bytes) {
    using namespace ddtree;
    if (!within(kernel, DDTREE_TREE_BUILD, DDTREE_GREEDY_STEP) || !present(args, bytes)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    const ddtree_verify_attn_args* attn = nullptr;
    if (kernel == DDTREE_VERIFY_ATTN) {
        attn = static_cast<const ddtree_verify_attn_args*>(args);
    } else if (kernel == DDTREE_GREEDY_STEP && readable(static_cast<const ddtree_greedy_step_args*>(args))) {
        attn = static_cast<const ddtree_greedy_step_args*>(args)->attn;
    }
    *bytes = attention_workspace_bytes(attn, DDTREE_ATTN_AUTO, 0);
    return DDTREE_OK;
}
