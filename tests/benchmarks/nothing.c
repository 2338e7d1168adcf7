/* A library whose tree_build does nothing: what is left of the time of a case is the harness. */
#include "ddtree.h"

#define API __attribute__((visibility("default")))

API int32_t ddtree_query(ddtree_info* info) {
    uint64_t size = info->struct_bytes;
    *info = (ddtree_info){.struct_bytes = size,
                          .abi_version = DDTREE_ABI_VERSION,
                          .contract_major = DDTREE_CONTRACT_MAJOR,
                          .memory_space = DDTREE_MEMORY_HOST,
                          .capabilities = DDTREE_CAP_TREE_BUILD,
                          .max_B = 1 << 20, .max_L = 64, .max_K = 1 << 10, .max_N = 1 << 12,
                          .description = "nothing"};
    return DDTREE_OK;
}

API int32_t ddtree_tree_build(const ddtree_tree_build_args* args, void* workspace, uint64_t bytes, void* stream) {
    (void)args, (void)workspace, (void)bytes, (void)stream;
    return DDTREE_OK;
}
