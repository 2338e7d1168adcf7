// Host side of the tensor-core attention: may it run, how much workspace, launch.
#include "attn_mma.h"

#include "attn_kernel.cuh"
#include "checks.cuh"

namespace ddtree {
namespace mma {
namespace {

constexpr int64_t kMostStride = 1 << 29;  // elements

// What the host knows of the current device; 0 where a query fails.
int attribute(cudaDeviceAttr which) {
    int device = 0;
    int value = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
        cudaGetLastError();  // reported by the caller; the next launch must not find it
        return 0;
    }
    return value;
}

// Rows can be copied 16 bytes at a time, and a page with its strides in bytes fits into 32 bits.
bool copyable(const void* base, int64_t page, int64_t slot) {
    return reinterpret_cast<uintptr_t>(base) % 16 == 0 && (page | slot) % 8 == 0 &&
           within(page, -kMostStride, kMostStride) && within(slot, -kMostStride / 256, kMostStride / 256);
}

template <class Tile>
int workers_for(const ddtree_verify_attn_args& args, int shares) {
    const int most = shares > 0 ? shares : attribute(cudaDevAttrMultiProcessorCount);
    return plan::useful_workers(args.B, args.N, args.Hq, static_cast<int64_t>(args.M) * args.S, Tile::kRows,
                                Tile::kKeys, most);
}

int64_t line_bytes(const ddtree_verify_attn_args& args) {
    return plan::ceil_div((kLineHeader + static_cast<int64_t>(args.B)) * 8, 256) * 256;
}

template <class Tile>
uint64_t bytes_for(const ddtree_verify_attn_args& args, int shares) {
    return line_bytes(args) + 2ull * workers_for<Tile>(args, shares) * record_floats<Tile>() * sizeof(float);
}

template <class... Params>
cudaError_t launch(void (*kernel)(Params...), int blocks, int threads, int shared_bytes, bool overlaps,
                   cudaStream_t stream, const Params&... params) {
    if (shared_bytes > 0) {
        const cudaError_t error =
            cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
        if (error != cudaSuccess) {
            cudaGetLastError();
            return error;
        }
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &overlap;
    config.numAttrs = overlaps ? 1 : 0;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, params...);
    return error == cudaSuccess ? cudaGetLastError() : error;
}

template <class Tile>
int32_t run(const ddtree_verify_attn_args& args, int shares, void* workspace, uint64_t workspace_bytes,
            cudaStream_t stream) {
    const int workers = workers_for<Tile>(args, shares);
    if (workspace == nullptr || workspace_bytes < bytes_for<Tile>(args, shares)) {
        return DDTREE_WORKSPACE_TOO_SMALL;
    }
    if (reinterpret_cast<uintptr_t>(workspace) % 16 != 0) {
        return DDTREE_INVALID_ARGUMENT;
    }
    const bool split = args.Dr > 0;
    Problem problem;
    problem.q = args.q;
    problem.latent = reinterpret_cast<const unsigned char*>(args.key);
    problem.rope = reinterpret_cast<const unsigned char*>(split ? args.rope : args.key + kValueColumns);
    problem.block_table = args.block_table;
    problem.prefix_len = args.prefix_len;
    problem.node_count = args.node_count;
    problem.tree_mask = args.tree_mask;
    problem.out = args.out;
    problem.lse = args.lse;
    problem.latent_page = static_cast<int32_t>(args.key_page_stride * 2);
    problem.latent_slot = static_cast<int32_t>(args.key_slot_stride * 2);
    problem.rope_page = static_cast<int32_t>((split ? args.rope_page_stride : args.key_page_stride) * 2);
    problem.rope_slot = static_cast<int32_t>((split ? args.rope_slot_stride : args.key_slot_stride) * 2);
    problem.page_shift = 0;
    while ((1 << problem.page_shift) < args.S) {
        ++problem.page_shift;
    }
    problem.page_magic = static_cast<uint32_t>(
        ((static_cast<uint64_t>(1 << problem.page_shift) - args.S) << 32) / args.S + 1);
    problem.B = args.B;
    problem.N = args.N;
    problem.W = args.W;
    problem.Hq = args.Hq;
    problem.S = args.S;
    problem.M = args.M;
    problem.scale_log2 = args.scale * 1.4426950408889634f;
    problem.workers = workers;
    problem.line = static_cast<int64_t*>(workspace);
    problem.partial = reinterpret_cast<float*>(static_cast<unsigned char*>(workspace) + line_bytes(args));
    cudaError_t error = launch(attention_kernel<Tile>, workers, kThreads, Tile::kBytes, false, stream, problem);
    if (error == cudaSuccess) {
        const int64_t rows = static_cast<int64_t>(args.B) * args.N * args.Hq;
        const int64_t most = 8ll * attribute(cudaDevAttrMultiProcessorCount);
        const bool overlaps = attribute(cudaDevAttrComputeCapabilityMajor) >= 9;
        error = launch(merge_kernel<Tile>, static_cast<int>(plan::smaller(rows, most)), kMergeThreads, 0,
                       overlaps, stream, problem);
    }
    return launch_status(error);
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
           reinterpret_cast<uintptr_t>(args.q) % 16 == 0 && reinterpret_cast<uintptr_t>(args.out) % 4 == 0 &&
           rows < (1 << 30);
}

int best_config() {
    const int bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (bytes >= WideTile::kBytes) {
        return kWide;
    }
    return bytes >= NarrowTile::kBytes && attribute(cudaDevAttrComputeCapabilityMajor) >= 8 ? kNarrow : kNone;
}

uint64_t workspace_bytes(const ddtree_verify_attn_args& args, int config, int shares) {
    return config == kWide ? bytes_for<WideTile>(args, shares) : bytes_for<NarrowTile>(args, shares);
}

int32_t attention(const ddtree_verify_attn_args& args, int config, int shares, void* workspace,
                  uint64_t workspace_bytes, void* stream) {
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    return config == kWide ? run<WideTile>(args, shares, workspace, workspace_bytes, on)
                           : run<NarrowTile>(args, shares, workspace, workspace_bytes, on);
}

}  // namespace mma
}  // namespace ddtree
