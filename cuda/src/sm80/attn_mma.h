// The tensor-core attention as the dispatcher sees it.
#pragma once

#include <cstdint>

#include "ddtree.h"

namespace ddtree {
namespace mma {

// mma.sync with tiles of 32 rows in up to 99 KB of shared memory or of 64 rows in up to 227 KB; wgmma.
constexpr int kNone = 1;
constexpr int kNarrow = 2;
constexpr int kWide = 3;
constexpr int kHopper = 4;

// Does it take these arguments? They are valid.
bool takes(const ddtree_verify_attn_args& args);

// The best configuration for the current device and these sizes, kNone if it runs none.
int best_config(const ddtree_verify_attn_args& args);

// Does the current device run `config`, one of those above but kNone?
bool runs(int config);

// `shares`: into how many parts the work is cut; 0: one for each multiprocessor.
uint64_t workspace_bytes(const ddtree_verify_attn_args& args, int config, int shares);
int32_t attention(const ddtree_verify_attn_args& args, int config, int shares, void* workspace,
                  uint64_t workspace_bytes, void* stream);

// The sm_90a kernel, where the build has it.
uint64_t hopper_workspace_bytes(const ddtree_verify_attn_args& args, int shares);
int32_t hopper_attention(const ddtree_verify_attn_args& args, int shares, void* workspace,
                         uint64_t workspace_bytes, void* stream);

}  // namespace mma
}  // namespace ddtree
