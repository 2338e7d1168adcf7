/* ddtree.h - C ABI of the draft-tree kernels, contract 1.0.
 *
 * One struct and one function per kernel. The caller owns all memory; pointers named in the structs live in
 * the memory space that ddtree_query reports (host or device), the structs themselves in host memory.
 * A kernel allocates nothing, synchronises nothing, keeps no global state, launches only on the given
 * stream and returns the error of any launch. Arrays are contiguous, indices are int32, -1 means "none",
 * offsets are computed in 64 bits. What each array means is written in docs/contract.md; names, order and
 * types here are checked against harness/contract.py by the tests.
 *
 * Dimensions: B requests, L depth limit, K candidates per depth, N node slots (root in slot 0),
 * W = ceil(N/32) mask words, A = L + 1, Hq query heads, Hkv KV heads, Dk key width, Dv value width,
 * Dr trailing key elements read through `rope`, G pages, S slots per page, M pages per request,
 * T stop tokens, Y layers, V rows of the planted head.
 */
#ifndef DDTREE_H
#define DDTREE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DDTREE_API __attribute__((visibility("default")))
#else
#define DDTREE_API
#endif

#define DDTREE_ABI_VERSION 1
#define DDTREE_CONTRACT_MAJOR 1
#define DDTREE_CONTRACT_MINOR 0

/* Status codes. */
#define DDTREE_OK 0
#define DDTREE_INVALID_ARGUMENT 1
#define DDTREE_UNSUPPORTED 2
#define DDTREE_WORKSPACE_TOO_SMALL 3
#define DDTREE_LAUNCH_FAILED 4

/* Kernel ids, for ddtree_workspace_bytes and ddtree_plan. */
#define DDTREE_TREE_BUILD 0
#define DDTREE_VERIFY_ATTN 1
#define DDTREE_TREE_ACCEPT 2
#define DDTREE_KV_COMMIT 3
#define DDTREE_GREEDY_STEP 4

/* Memory spaces. */
#define DDTREE_MEMORY_HOST 0
#define DDTREE_MEMORY_DEVICE 1

/* Bases of the log-sum-exp that verify_attn returns. */
#define DDTREE_LSE_NATURAL 0
#define DDTREE_LSE_BASE2 1

/* Capability bits. A declared capability is mandatory in a conformance run. */
#define DDTREE_CAP_TREE_BUILD (1u << 0)
#define DDTREE_CAP_ATTN_MLA (1u << 1)
#define DDTREE_CAP_ATTN_GQA (1u << 2)
#define DDTREE_CAP_ATTN_LSE (1u << 3)
#define DDTREE_CAP_TREE_ACCEPT (1u << 4)
#define DDTREE_CAP_STOP_AND_LIMIT (1u << 5)
#define DDTREE_CAP_KV_COMMIT (1u << 6)
#define DDTREE_CAP_GREEDY_STEP (1u << 7)
#define DDTREE_CAP_PLANTED (1u << 8)

/* struct_bytes is set by the caller before ddtree_query; the callee fills no byte past it. */
typedef struct ddtree_info {
    uint64_t struct_bytes;
    uint32_t abi_version;
    uint32_t contract_major;
    uint32_t contract_minor;
    uint32_t memory_space;
    uint32_t lse_base;
    uint32_t capabilities;
    int32_t max_B;
    int32_t max_L;
    int32_t max_K;
    int32_t max_N;
    int32_t max_S;
    int32_t max_Hq;
    int32_t max_T;
    int32_t max_Y;
    const char* description; /* static, one line: what was built, how */
} ddtree_info;

/* What the host knows before a call; every member may be larger than the truth, none smaller. */
typedef struct ddtree_hints {
    uint64_t struct_bytes;
    int32_t live_batch;
    int32_t max_prefix;
    int32_t max_nodes;
    int32_t reserved;
} ddtree_hints;

typedef struct ddtree_tree_build_args {
    uint64_t struct_bytes;
    const float* topk_logprob;   /* [B,L,K] */
    const int32_t* topk_token;   /* [B,L,K] */
    const int32_t* root_token;   /* [B] */
    const int32_t* prefix_len;   /* [B] */
    int32_t* node_token;         /* [B,N] */
    int32_t* node_parent;        /* [B,N] */
    int32_t* node_depth;         /* [B,N] */
    int32_t* position;           /* [B,N] */
    int32_t* next_token;         /* [B,N] */
    int32_t* next_sibling;       /* [B,N] */
    uint32_t* tree_mask;         /* [B,N,W] */
    int32_t* node_count;         /* [B] */
    int32_t* tree_status;        /* [B] */
    int32_t B;
    int32_t L;
    int32_t K;
    int32_t N;
    int32_t W;
    int32_t budget;
} ddtree_tree_build_args;

/* A key is key[0..Dk-Dr) followed by rope[0..Dr). Element e of slot s of page g, KV head h, stands at
 * base + g*page_stride + s*slot_stride + h*head_stride + e. Strides count bf16 elements. Rows of the
 * contract are served by key = kv, rope = kv + 512, value = kv (mla) or key = kv, Dr = 0 (gqa). */
typedef struct ddtree_verify_attn_args {
    uint64_t struct_bytes;
    const uint16_t* q;            /* [B,N,Hq,Dk] bf16 */
    const uint16_t* key;          /* bf16 pool */
    const uint16_t* rope;         /* bf16 pool, may be null when Dr is 0 */
    const uint16_t* value;        /* bf16 pool */
    const int32_t* block_table;   /* [B,M] */
    const int32_t* prefix_len;    /* [B] */
    const int32_t* node_count;    /* [B] */
    const uint32_t* tree_mask;    /* [B,N,W] */
    uint16_t* out;                /* [B,N,Hq,Dv] bf16 */
    float* lse;                   /* [B,N,Hq]; null if not wanted */
    int64_t key_page_stride;
    int64_t key_slot_stride;
    int64_t key_head_stride;
    int64_t rope_page_stride;
    int64_t rope_slot_stride;
    int64_t rope_head_stride;
    int64_t value_page_stride;
    int64_t value_slot_stride;
    int64_t value_head_stride;
    int32_t B;
    int32_t N;
    int32_t W;
    int32_t Hq;
    int32_t Hkv;
    int32_t Dk;
    int32_t Dr;
    int32_t Dv;
    int32_t G;
    int32_t S;
    int32_t M;
    float scale;
} ddtree_verify_attn_args;

typedef struct ddtree_tree_accept_args {
    uint64_t struct_bytes;
    const int32_t* node_token;     /* [B,N] */
    const int32_t* next_token;     /* [B,N] */
    const int32_t* next_sibling;   /* [B,N] */
    const int32_t* target_predict; /* [B,N] */
    const int32_t* node_count;     /* [B] */
    const int32_t* stop_token;     /* [T], null when T is 0 */
    const int32_t* token_limit;    /* [B] */
    int32_t* accept_index;         /* [B,A] */
    int32_t* accept_len;           /* [B] */
    int32_t* bonus_token;          /* [B] */
    int32_t* out_token;            /* [B,A] */
    int32_t* finished;             /* [B] */
    int32_t* accept_status;        /* [B] */
    int32_t B;
    int32_t N;
    int32_t T;
    int32_t depth_limit;           /* A = depth_limit + 1 */
} ddtree_tree_accept_args;

/* Slot s of page g of layer y stands at layer_base[y] + g*page_bytes + s*slot_bytes and is row_bytes long. */
typedef struct ddtree_kv_commit_args {
    uint64_t struct_bytes;
    uint8_t* const* layer_base;    /* [Y] pointers, themselves in the target's memory space */
    const int32_t* block_table;    /* [B,M] */
    const int32_t* prefix_len;     /* [B] */
    const int32_t* accept_index;   /* [B,A] */
    const int32_t* accept_len;     /* [B] */
    int32_t* new_len;              /* [B] */
    int64_t page_bytes;
    int64_t slot_bytes;
    int64_t row_bytes;
    int32_t B;
    int32_t A;
    int32_t M;
    int32_t S;
    int32_t Y;
    int32_t reserved;
} ddtree_kv_commit_args;

/* Enqueues the caller's own work on `stream`; returns a status code. Called on the host, never under a
 * lock, and during capture too. */
typedef int32_t (*ddtree_hook)(const void* context, void* stream);

/* The four calls on one stream: build, before_attn, attn, after_attn, accept, commit. The pointers are to
 * host structs whose arrays already refer to each other (attn->tree_mask == build->tree_mask, ...). The
 * hooks stand where an engine runs its model; null hooks are passed over. */
typedef struct ddtree_greedy_step_args {
    uint64_t struct_bytes;
    const ddtree_tree_build_args* build;
    const ddtree_verify_attn_args* attn;
    const ddtree_tree_accept_args* accept;
    const ddtree_kv_commit_args* commit;
    ddtree_hook before_attn;
    const void* before_attn_context;
    ddtree_hook after_attn;
    const void* after_attn_context;
} ddtree_greedy_step_args;

/* Utilities of the planted mode; both have the type of a hook. */

/* Writes q and the tail KV rows of the live nodes, in every layer, from (node_token, position). */
typedef struct ddtree_planted_embed_args {
    uint64_t struct_bytes;
    const int32_t* node_token;     /* [B,N] */
    const int32_t* position;       /* [B,N] */
    const int32_t* node_count;     /* [B] */
    const int32_t* prefix_len;     /* [B] */
    const int32_t* block_table;    /* [B,M] */
    uint16_t* q;                   /* [B,N,Hq,Dk] bf16 */
    uint8_t* const* layer_base;    /* [Y] pointers to bf16 pools [G,S,R] */
    int32_t B;
    int32_t N;
    int32_t Hq;
    int32_t Dk;
    int32_t R;
    int32_t S;
    int32_t M;
    int32_t Y;
} ddtree_planted_embed_args;

/* target_predict = head_token[argmax over rows of head . out + head_bias], lowest row first. */
typedef struct ddtree_planted_head_args {
    uint64_t struct_bytes;
    const uint16_t* out;           /* [B,N,D] bf16, D = Hq*Dv */
    const int32_t* node_count;     /* [B] */
    const uint16_t* head;          /* [V,D] bf16 */
    const float* head_bias;        /* [V] */
    const int32_t* head_token;     /* [V] */
    int32_t* target_predict;       /* [B,N] */
    int32_t B;
    int32_t N;
    int32_t V;
    int32_t D;
} ddtree_planted_head_args;

DDTREE_API int32_t ddtree_query(ddtree_info* info);

/* Bytes of workspace that the kernel wants for these args; the workspace holds anything at entry. */
DDTREE_API int32_t ddtree_workspace_bytes(int32_t kernel, const void* args, uint64_t* bytes);

/* Optional symbol: called outside capture and timing, and before every replay. */
DDTREE_API int32_t ddtree_plan(int32_t kernel, const void* args, const ddtree_hints* hints);

DDTREE_API int32_t ddtree_tree_build(const ddtree_tree_build_args* args, void* workspace,
                                     uint64_t workspace_bytes, void* stream);
DDTREE_API int32_t ddtree_verify_attn(const ddtree_verify_attn_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream);
DDTREE_API int32_t ddtree_tree_accept(const ddtree_tree_accept_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream);
DDTREE_API int32_t ddtree_kv_commit(const ddtree_kv_commit_args* args, void* workspace,
                                    uint64_t workspace_bytes, void* stream);
DDTREE_API int32_t ddtree_greedy_step(const ddtree_greedy_step_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream);

DDTREE_API int32_t ddtree_planted_embed(const void* args, void* stream);
DDTREE_API int32_t ddtree_planted_head(const void* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif
