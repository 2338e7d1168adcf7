/* A library that forwards everything to the real one (-DREAL="...") and has one fault (-DFAULT=...).
 *
 * Faults of tree_build happen for calls with budget == FAULT_BUDGET only, so that the other cases show that
 * the run goes on. -DDEVICE claims device memory, for the test with a driver made of host memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddtree.h"

#define NONE 0
#define SILENT 1       /* returns OK and writes nothing */
#define PAST_END 2     /* one byte past node_token */
#define BEFORE 3       /* one byte before node_token */
#define EDIT_INPUT 4   /* changes one bit of topk_logprob */
#define NULL_DEREF 5
#define HANG 6
#define EXIT 7
#define REFUSE 8       /* UNSUPPORTED for what it declares */
#define INVALID 9      /* INVALID_ARGUMENT */
#define FLIP 10        /* another right-looking answer in every second call */
#define WRONG 11       /* one wrong parent */
#define SPILL 12       /* one byte past its workspace */
#define OLD_ABI 13
#define NEXT_MAJOR 14
#define SMALL 15       /* declares max_N 4 */
#define NO_KERNEL 16   /* exports no ddtree_tree_accept, but declares it */
#define UNDECLARED 17  /* exports and declares tree_build alone */
#define PARTIAL 18     /* leaves the last element of tree_status alone */
#define NO_STEP 19     /* exports no ddtree_greedy_step: the harness composes it */
#define BASE2 20       /* lse in base 2 */
#define NO_LSE 21      /* writes no lse and says so */

#define READS_ALL 22    /* attention multiplies rows by 0 that it must not look at */
#define TOUCHES_POOL 23 /* kv_commit flips a bit of a committed row of the last layer */
#define READS_DEAD_Q 24 /* attention lets the query of a dead slot into its output */

#define READS_GUARD 25  /* reads past node_token, which only an address sanitizer notices */

#define OTHER_STREAM 26 /* does its work on a stream of its own, ahead of what waits on the one given */
#define KEEPS_FIRST 27  /* kv_commit keeps accept_len of its first call with these buffers */
#define STALE_SPACE 28  /* trusts a count in its workspace that an earlier call left there */
#define SHORT_OFFSET 29 /* offsets of 32 bits in kv_commit */
#define BELOW_ZERO 30   /* declares max_N -1 */

#ifndef FAULT
#define FAULT NONE
#endif
#ifndef FAULT_BUDGET
#define FAULT_BUDGET -1
#endif

static void* real(const char* name) {
    static void* handle;
    if (handle == NULL) handle = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    void* symbol = handle ? dlsym(handle, name) : NULL;
    if (symbol == NULL) abort();
    return symbol;
}

/* What waits on the stream happens before a kernel that is launched on it. */
static void in_order(void* stream) {
#ifdef DEVICE
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*run)(void*) = (void (*)(void*))dlsym(driver, "fake_cuda_run_stream");
    void (*beside)(void) = (void (*)(void))dlsym(driver, "fake_cuda_other_stream");
    if (run == NULL || beside == NULL) abort();
    if (FAULT == OTHER_STREAM) beside();
    else run(stream);
#else
    (void)stream;
#endif
}

typedef int32_t (*call_type)(const void*, void*, uint64_t, void*);
#define FORWARD(name, type)                                                                       \
    int32_t ddtree_##name(const type* args, void* workspace, uint64_t bytes, void* stream) {      \
        in_order(stream);                                                                         \
        return ((call_type)real("ddtree_" #name))(args, workspace, bytes, stream);                \
    }

int32_t ddtree_query(ddtree_info* info) {
    int32_t status = ((int32_t(*)(ddtree_info*))real("ddtree_query"))(info);
#ifdef DEVICE
    info->memory_space = DDTREE_MEMORY_DEVICE;
#endif
    info->description = "test library";
    if (FAULT == OLD_ABI) info->abi_version = 0;
    if (FAULT == NEXT_MAJOR) info->contract_major = 2;
    if (FAULT == SMALL) info->max_N = 4;
    if (FAULT == BELOW_ZERO) info->max_N = -1;
    if (FAULT == UNDECLARED) info->capabilities = DDTREE_CAP_TREE_BUILD;
    if (FAULT == NO_STEP || FAULT == TOUCHES_POOL || FAULT == STALE_SPACE) info->capabilities &= ~(uint32_t)(DDTREE_CAP_GREEDY_STEP | DDTREE_CAP_PLANTED);
    if (FAULT == BASE2) info->lse_base = DDTREE_LSE_BASE2;
    if (FAULT == NO_LSE) info->capabilities &= ~(uint32_t)DDTREE_CAP_ATTN_LSE;
    return status;
}

int32_t ddtree_workspace_bytes(int32_t kernel, const void* args, uint64_t* bytes) {
    (void)kernel, (void)args;
    *bytes = FAULT == SPILL || FAULT == STALE_SPACE ? 100 : 0;
    return DDTREE_OK;
}

int32_t ddtree_tree_build(const ddtree_tree_build_args* args, void* workspace, uint64_t bytes, void* stream) {
    static int calls;
    ++calls;
    in_order(stream);
    const int now = args->budget == FAULT_BUDGET;
    const size_t nodes = (size_t)args->B * (size_t)args->N;
    if (now && FAULT == SILENT) return DDTREE_OK;
    if (now && FAULT == NULL_DEREF) *(volatile int*)0 = 1;
    if (now && FAULT == HANG) for (;;) sleep(1);
    if (now && FAULT == EXIT) _exit(3);
    if (now && FAULT == REFUSE) return DDTREE_UNSUPPORTED;
    if (now && FAULT == INVALID) return DDTREE_INVALID_ARGUMENT;
    int32_t kept = args->tree_status[args->B - 1];
    int32_t status = ((call_type)real("ddtree_tree_build"))(args, workspace, bytes, stream);
    if (!now) return status;
    if (FAULT == READS_GUARD) (void)*(volatile int32_t*)(args->node_token + nodes);
    if (FAULT == PAST_END) ((uint8_t*)(args->node_token + nodes))[0] ^= 1;
    if (FAULT == BEFORE) ((uint8_t*)args->node_token)[-1] ^= 1;
    if (FAULT == EDIT_INPUT) ((uint8_t*)args->topk_logprob)[0] ^= 1;
    if (FAULT == WRONG) args->node_parent[nodes - 1] += 7;
    if (FAULT == FLIP && calls % 2) args->position[0] ^= 0;
    if (FAULT == SPILL) ((uint8_t*)workspace)[bytes] ^= 1;
    if (FAULT == PARTIAL) args->tree_status[args->B - 1] = kept;
    return status;
}

int32_t ddtree_verify_attn(const ddtree_verify_attn_args* args, void* workspace, uint64_t bytes, void* stream) {
    static int calls;
    in_order(stream);
    int32_t status = ((call_type)real("ddtree_verify_attn"))(args, workspace, bytes, stream);
    const size_t rows = (size_t)args->B * (size_t)args->N * (size_t)args->Hq;
    if (FAULT == BASE2 && args->lse)
        for (size_t i = 0; i < rows; ++i) args->lse[i] = (float)(args->lse[i] / 0.6931471805599453);
    if (FAULT == READS_ALL) {
        float sum = 0;
        for (int64_t i = 0; i < args->G * args->key_page_stride; ++i) {
            union { uint32_t bits; float value; } key = {(uint32_t)args->key[i] << 16};
            sum += 0 * key.value;
        }
        if (sum != 0) args->out[0] = 0x7fc0;
    }
    if (FAULT == READS_DEAD_Q)
        for (int32_t b = 0; b < args->B; ++b)
            if (args->node_count[b] < args->N) {
                size_t row = (size_t)b * args->N + args->N - 1;
                args->out[row * args->Hq * args->Dv] = (uint16_t)(args->q[row * args->Hq * args->Dk] & 0x7f80) == 0x7f80;
            }
    if (FAULT == FLIP && ++calls % 2)
        for (size_t i = 0; i < rows * (size_t)args->Dv; ++i)
            if (args->out[i] == 0) args->out[i] = 0x8000; /* -0.0: as right, but not the same bits */
    return status;
}

#if FAULT == STALE_SPACE
int32_t ddtree_tree_accept(const ddtree_tree_accept_args* args, void* workspace, uint64_t bytes, void* stream) {
    int32_t* kept = workspace; /* a mark, and the batch that was live when it was set */
    ddtree_tree_accept_args copy = *args;
    in_order(stream);
    if (kept[0] == 0x11223344) copy.B = kept[1];
    kept[0] = 0x11223344;
    for (kept[1] = args->B; kept[1] > 0 && args->node_count[kept[1] - 1] == 0; --kept[1]) {}
    return ((call_type)real("ddtree_tree_accept"))(&copy, workspace, bytes, stream);
}
#elif FAULT != NO_KERNEL
FORWARD(tree_accept, ddtree_tree_accept_args)
#endif

int32_t ddtree_kv_commit(const ddtree_kv_commit_args* args, void* workspace, uint64_t bytes, void* stream) {
    in_order(stream);
    if (FAULT == SHORT_OFFSET) {
        for (int32_t b = 0; b < args->B; ++b) {
            for (int32_t i = 0; i <= args->accept_len[b]; ++i) {
                uint32_t at[2]; /* wraps at 2^32 bytes */
                const int32_t slot[2] = {args->prefix_len[b] + args->accept_index[b * args->A + i], args->prefix_len[b] + i};
                for (int k = 0; k < 2; ++k)
                    at[k] = (uint32_t)args->block_table[b * args->M + slot[k] / args->S] * (uint32_t)args->page_bytes
                          + (uint32_t)(slot[k] % args->S) * (uint32_t)args->slot_bytes;
                for (int32_t y = 0; y < args->Y; ++y)
                    memmove(args->layer_base[y] + at[1], args->layer_base[y] + at[0], (size_t)args->row_bytes);
            }
            args->new_len[b] = args->prefix_len[b] + args->accept_len[b] + 1;
        }
        return DDTREE_OK;
    }
    if (FAULT == KEEPS_FIRST) {
        static const void* seen;
        static int32_t kept[64];
        ddtree_kv_commit_args copy = *args;
        if (args->B > 64) return DDTREE_UNSUPPORTED;
        if (seen != args->accept_len) memcpy(kept, args->accept_len, sizeof *kept * (size_t)args->B);
        seen = args->accept_len;
        copy.accept_len = kept;
        return ((call_type)real("ddtree_kv_commit"))(&copy, workspace, bytes, stream);
    }
    int32_t status = ((call_type)real("ddtree_kv_commit"))(args, workspace, bytes, stream);
    if (FAULT == TOUCHES_POOL && args->accept_len[0] >= 0 && args->prefix_len[0] > 0)
        args->layer_base[args->Y - 1][args->block_table[0] * args->page_bytes] ^= 1;
    return status;
}
#if FAULT != NO_STEP && FAULT != TOUCHES_POOL && FAULT != STALE_SPACE
FORWARD(greedy_step, ddtree_greedy_step_args)

int32_t ddtree_planted_embed(const void* args, void* stream) {
    return ((int32_t(*)(const void*, void*))real("ddtree_planted_embed"))(args, stream);
}

int32_t ddtree_planted_head(const void* args, void* stream) {
    return ((int32_t(*)(const void*, void*))real("ddtree_planted_head"))(args, stream);
}
#endif
