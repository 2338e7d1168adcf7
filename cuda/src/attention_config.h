// Choosing an implementation of verify_attn by hand, for tests and measurements. Not part of the contract.
#pragma once

#include "ddtree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of `config`. A configuration that the device or the arguments rule out is DDTREE_UNSUPPORTED. */
#define DDTREE_ATTN_AUTO 0
#define DDTREE_ATTN_SIMT 1       /* takes everything; the only one of the CPU library */
#define DDTREE_ATTN_MMA_99KB 2   /* tensor cores, tiles of 32 rows, at most 99 KB of shared memory */
#define DDTREE_ATTN_MMA_227KB 3  /* tensor cores, tiles of 64 rows, at most 227 KB */
#define DDTREE_ATTN_WGMMA 4      /* tensor cores of sm_90 through wgmma, at most 227 KB */

/* `shares`: into how many parts the tensor-core kernels cut the work; 0 is one for each multiprocessor. */
DDTREE_API int32_t ddtree_verify_attn_config(const ddtree_verify_attn_args* args, int32_t config, int32_t shares,
                                             void* workspace, uint64_t workspace_bytes, void* stream);

/* Bytes of workspace for such a call; 0 for arguments that it would refuse. */
DDTREE_API uint64_t ddtree_verify_attn_config_bytes(const ddtree_verify_attn_args* args, int32_t config,
                                                    int32_t shares);

#ifdef __cplusplus
}

namespace ddtree {

constexpr int kMaxAttentionShares = 4096;

uint64_t attention_workspace_bytes(const ddtree_verify_attn_args* args, int32_t config, int32_t shares);

}  // namespace ddtree
#endif
