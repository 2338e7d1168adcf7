/* A library that forwards to the real one (-DREAL="...") and errs now and then. A run is known by its buffers.
 *
 * -DBIT=n     every n-th run of verify_attn returns the largest output one ulp off: right, not the same bits
 * -DWRONG=n   every n-th run of tree_build returns a wrong parent
 * -DPOISONS   a tree_build with budget 8 succeeds, and the next one with another budget dies
 * -DDIES      a tree_build with budget 8 dies, and so it does alone
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "ddtree.h"

static void* real(const char* name) {
    static void* handle;
    if (handle == NULL) handle = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    void* symbol = handle ? dlsym(handle, name) : NULL;
    if (symbol == NULL) abort();
    return symbol;
}

typedef int32_t (*call_type)(const void*, void*, uint64_t, void*);
static int poisoned;

int32_t ddtree_query(ddtree_info* info) {
    int32_t status = ((int32_t(*)(ddtree_info*))real("ddtree_query"))(info);
    info->description = "flaky library";
    return status;
}

int32_t ddtree_workspace_bytes(int32_t kernel, const void* args, uint64_t* bytes) {
    return ((int32_t(*)(int32_t, const void*, uint64_t*))real("ddtree_workspace_bytes"))(kernel, args, bytes);
}

int32_t ddtree_tree_build(const ddtree_tree_build_args* args, void* workspace, uint64_t bytes, void* stream) {
    static int runs;
    static const void* last;
    if (args->node_token != last) ++runs;
    last = args->node_token;
#ifdef POISONS
    if (args->budget == 8) poisoned = 1;
    else if (poisoned) abort();
#endif
#ifdef DIES
    if (args->budget == 8) abort();
#endif
    int32_t status = ((call_type)real("ddtree_tree_build"))(args, workspace, bytes, stream);
#ifdef WRONG
    if (runs % WRONG == 0) args->node_parent[1] += 7;
#endif
    return status;
}

int32_t ddtree_verify_attn(const ddtree_verify_attn_args* args, void* workspace, uint64_t bytes, void* stream) {
    static int runs;
    static const void* last;
    if (args->out != last) ++runs;
    last = args->out;
    int32_t status = ((call_type)real("ddtree_verify_attn"))(args, workspace, bytes, stream);
#ifdef BIT
    if (runs % BIT == 0) {
        const size_t size = (size_t)args->B * args->N * args->Hq * args->Dv;
        size_t largest = 0;
        for (size_t i = 0; i < size; ++i)
            if ((args->out[i] & 0x7fff) > (args->out[largest] & 0x7fff)) largest = i;
        args->out[largest] ^= 1;
    }
#endif
    return status;
}

#define FORWARD(name, type)                                                                  \
    int32_t ddtree_##name(const type* args, void* workspace, uint64_t bytes, void* stream) { \
        return ((call_type)real("ddtree_" #name))(args, workspace, bytes, stream);           \
    }
FORWARD(tree_accept, ddtree_tree_accept_args)
FORWARD(kv_commit, ddtree_kv_commit_args)
FORWARD(greedy_step, ddtree_greedy_step_args)

int32_t ddtree_planted_embed(const void* args, void* stream) {
    return ((int32_t(*)(const void*, void*))real("ddtree_planted_embed"))(args, stream);
}

int32_t ddtree_planted_head(const void* args, void* stream) {
    return ((int32_t(*)(const void*, void*))real("ddtree_planted_head"))(args, stream);
}
