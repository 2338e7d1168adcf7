// The tensor-core attention as the dispatcher sees it.
#pragma once

#include <cstdint>

#include "ddtree.h"

namespace ddtree {
namespace mma {

// Tiles of 64 rows in up to 227 KB of shared memory, or of 32 rows in up to 99 KB.
constexpr int kNone = 0;
constexpr int kNarrow = 2;
constexpr int kWide = 3;

// Does it take these arguments? They are valid.
bool takes(const ddtree_verify_attn_args& args);

// The better configuration for the current device, kNone if it runs neither.
int best_config();

// `shares`: into how many parts the work is cut; 0: one for each multiprocessor.
uint64_t workspace_bytes(const ddtree_verify_attn_args& args, int config, int shares);
int32_t attention(const ddtree_verify_attn_args& args, int config, int shares, void* workspace,
                  uint64_t workspace_bytes, void* stream);

}  // namespace mma
}  // namespace ddtree
