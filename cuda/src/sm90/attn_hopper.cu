// Launches the sm_90a kernel. Compiled for sm_90a alone.
#include "attn_hopper.cuh"

#include "sm80/attn_host.cuh"
#include "sm80/attn_mma.h"

namespace ddtree {
namespace mma {

uint64_t hopper_workspace_bytes(const ddtree_verify_attn_args& args, int shares) {
    return bytes_for<HopperTile>(args, shares);
}

int32_t hopper_attention(const ddtree_verify_attn_args& args, int shares, void* workspace,
                         uint64_t workspace_bytes, void* stream) {
    return run<HopperTile>(hopper_kernel, args, shares, workspace, workspace_bytes, stream);
}

}  // namespace mma
}  // namespace ddtree
