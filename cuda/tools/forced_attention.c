/* verify_attn of this project with one implementation and one cut of the work forced on every case.
 *
 *     cc -shared -fPIC -I cuda/include -I cuda/src cuda/tools/forced_attention.c -L build -lddtree_cuda \
 *        -Wl,-rpath,"$PWD/build" -o build/forced_attention.so
 *     DDTREE_ATTN_CONFIG=4 DDTREE_ATTN_SHARES=7 harness verify SET --target build/forced_attention.so \
 *        -k verify_attn --case '*splits*'
 *
 * Values: cuda/src/attention_config.h. What is not defined here comes from the library linked. */
#include <stdlib.h>

#include "attention_config.h"

static int32_t number(const char* name) {
    const char* text = getenv(name);
    return text ? atoi(text) : 0;
}

int32_t ddtree_workspace_bytes(int32_t kernel, const void* args, uint64_t* bytes) {
    if (kernel != DDTREE_VERIFY_ATTN) return DDTREE_UNSUPPORTED;
    *bytes = ddtree_verify_attn_config_bytes(args, number("DDTREE_ATTN_CONFIG"), number("DDTREE_ATTN_SHARES"));
    return DDTREE_OK;
}

int32_t ddtree_verify_attn(const ddtree_verify_attn_args* args, void* workspace, uint64_t workspace_bytes,
                           void* stream) {
    return ddtree_verify_attn_config(args, number("DDTREE_ATTN_CONFIG"), number("DDTREE_ATTN_SHARES"), workspace,
                                     workspace_bytes, stream);
}
