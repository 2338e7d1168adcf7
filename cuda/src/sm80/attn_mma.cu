// The tensor-core attention of sm_80 and later: may it run, and which configuration.
#include "attn_mma.h"

#include "attn_host.cuh"
#include "attn_kernel.cuh"

namespace ddtree {
namespace mma {
namespace {

constexpr int64_t kMostStride = 1 << 29;  // elements

// Rows can be copied 16 bytes at a time, and a page with its strides in bytes fits into 32 bits.
bool copyable(const void* base, int64_t page, int64_t slot) {
    return reinterpret_cast<uintptr_t>(base) % 16 == 0 && (page | slot) % 8 == 0 &&
           within(page, -kMostStride, kMostStride) && within(slot, -kMostStride / 256, kMostStride / 256);
}

}  // namespace

bool takes(const ddtree_verify_attn_args& args) {
    const bool split = args.Dr > 0;
    const int64_t rows = static_cast<int64_t>(args.N) * args.Hq;
    return args.Hkv == 1 && args.Dk == kColumns && args.Dv == kValueColumns &&
           (args.Dr == 0 || args.Dr == kColumns - kValueColumns) && args.value == args.key &&
           args.value_page_stride == args.key_page_stride && args.value_slot_stride == args.key_slot_stride &&
           copyable(args.key, args.key_page_stride, args.key_slot_stride) &&
           (!split || copyable(args.rope, args.rope_page_stride, args.rope_slot_stride)) &&
           reinterpret_cast<uintptr_t>(args.q) % 16 == 0 && reinterpret_cast<uintptr_t>(args.out) % 16 == 0 &&
           rows < (1 << 30);
}

int best_config(const ddtree_verify_attn_args& args) {
    const int bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    const int major = attribute(cudaDevAttrComputeCapabilityMajor);
    const bool narrow = bytes >= NarrowTile::kBytes && major >= 8;
    if (narrow && plan::prefers_small_tiles(args.B, args.N, args.Hq, static_cast<int64_t>(args.M) * args.S,
                                            attribute(cudaDevAttrMultiProcessorCount))) {
        return kNarrow;
    }
#ifdef DDTREE_WGMMA
    if (major == 9) {
        return kHopper;
    }
#endif
    if (bytes >= WideTile::kBytes && major >= 8) {
        return kWide;
    }
    return narrow ? kNarrow : kNone;
}

bool runs(int config) {
    const int bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    const int major = attribute(cudaDevAttrComputeCapabilityMajor);
#ifdef DDTREE_WGMMA
    if (config == kHopper) {
        return major == 9;
    }
#endif
    return major >= 8 && (config == kNarrow ? bytes >= NarrowTile::kBytes
                                            : config == kWide && bytes >= WideTile::kBytes);
}

uint64_t workspace_bytes(const ddtree_verify_attn_args& args, int config, int shares) {
#ifdef DDTREE_WGMMA
    if (config == kHopper) {
        return hopper_workspace_bytes(args, shares);
    }
#endif
    return config == kWide ? bytes_for<WideTile>(args, shares) : bytes_for<NarrowTile>(args, shares);
}

int32_t attention(const ddtree_verify_attn_args& args, int config, int shares, void* workspace,
                  uint64_t workspace_bytes, void* stream) {
#ifdef DDTREE_WGMMA
    if (config == kHopper) {
        return hopper_attention(args, shares, workspace, workspace_bytes, stream);
    }
#endif
    return config == kWide
               ? run<WideTile>(attention_kernel<WideTile>, args, shares, workspace, workspace_bytes, stream)
               : run<NarrowTile>(attention_kernel<NarrowTile>, args, shares, workspace, workspace_bytes, stream);
}

}  // namespace mma
}  // namespace ddtree
