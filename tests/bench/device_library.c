/* The CPU library (-DREAL="...") as a device library whose calls can be captured by graph_cuda.c.
 *
 * -DSPIN=n: n more rounds of nothing in each tree_accept; -DWRONG_FROM=n: the n-th and later calls of
 * tree_accept are wrong; -DDIE: tree_accept ends the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "ddtree.h"

typedef int32_t (*kernel)(const void* args, void* workspace, uint64_t bytes, void* stream);

static void* real(const char* name) {
    static void* handle;
    if (handle == NULL) handle = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    return dlsym(handle, name);
}

static int record(kernel function, const void* args, size_t size, void* workspace, uint64_t bytes) {
    static int (*recorder)(kernel, const void*, size_t, void*, uint64_t);
    if (recorder == NULL) {
        void* driver = dlopen("libcuda.so.1", RTLD_NOW);
        *(void**)&recorder = driver ? dlsym(driver, "fake_cuda_record") : NULL;
        if (recorder == NULL) return 0;
    }
    return recorder(function, args, size, workspace, bytes);
}

int32_t ddtree_query(ddtree_info* info) {
    int32_t status = ((int32_t(*)(ddtree_info*))real("ddtree_query"))(info);
    info->memory_space = DDTREE_MEMORY_DEVICE;
    info->description = "device library of the bench tests";
    return status;
}
int32_t ddtree_workspace_bytes(int32_t which, const void* args, uint64_t* bytes) {
    return ((int32_t(*)(int32_t, const void*, uint64_t*))real("ddtree_workspace_bytes"))(which, args, bytes);
}
int32_t ddtree_planted_embed(const void* args, void* stream) {
    return ((int32_t(*)(const void*, void*))real("ddtree_planted_embed"))(args, stream);
}
int32_t ddtree_planted_head(const void* args, void* stream) {
    return ((int32_t(*)(const void*, void*))real("ddtree_planted_head"))(args, stream);
}

#define KERNEL(name)                                                                                        \
    int32_t ddtree_##name(const ddtree_##name##_args* args, void* workspace, uint64_t bytes, void* stream) { \
        kernel function = (kernel)real("ddtree_" #name);                                                    \
        if (record(function, args, sizeof *args, workspace, bytes)) return DDTREE_OK;                       \
        return function(args, workspace, bytes, stream);                                                    \
    }
KERNEL(tree_build)
KERNEL(verify_attn)
KERNEL(kv_commit)
KERNEL(greedy_step)

static int32_t accept(const void* raw, void* workspace, uint64_t bytes, void* stream) {
    static int calls;
    const ddtree_tree_accept_args* args = raw;
    ++calls;
#ifdef DIE
    _exit(7);
#endif
#ifdef SPIN
    for (volatile int i = 0; i < SPIN; ++i) {}
#endif
    int32_t status = ((kernel)real("ddtree_tree_accept"))(args, workspace, bytes, stream);
#ifdef WRONG_FROM
    if (calls >= WRONG_FROM) args->accept_len[0] += 1;
#endif
    return status;
}
int32_t ddtree_tree_accept(const ddtree_tree_accept_args* args, void* workspace, uint64_t bytes, void* stream) {
    if (record(accept, args, sizeof *args, workspace, bytes)) return DDTREE_OK;
    return accept(args, workspace, bytes, stream);
}
