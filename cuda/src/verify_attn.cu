// verify_attn: attention of every tree node over the paged prefix and the tail rows its mask shows.
//
// One block per (request, node, up to four heads). Heads of a block share the node, hence the mask, and
// the KV head, hence the rows: each key and value element is loaded once for all of them. Keys come in
// tiles of 32; a block's warps take tiles in turn, each with an online softmax of its own, and merge at
// the end. Within a tile a lane scores one key, then the warp adds up the values key by key.
//
// Tail tiles are words of the mask, so an invisible tile costs one load, and what no bit shows is never
// read: not its key, not its value, not its page.
//
// This kernel takes everything and is what the emulator runs. On a GPU, mla rows go to the tensor-core kernel
// of sm80/ where it takes them.
#include "attention_config.h"

#include "checks.cuh"
#include "softmax.cuh"

#ifdef __CUDACC__
#include "sm80/attn_mma.h"
#endif

namespace ddtree {
namespace {

constexpr int kTilesPerWarp = 4;  // one more warp for every so many tiles of the longest possible row

// Rows of dead nodes: neither q nor the pools are looked at.
__device__ void write_nothing_seen(uint16_t* out, int elements, float* lse, int heads) {
    for (int i = threadIdx.x; i < elements; i += blockDim.x) {
        out[i] = 0;
    }
    if (lse != nullptr && threadIdx.x < static_cast<unsigned>(heads)) {
        lse[threadIdx.x] = kMinusInfinity;
    }
}

// query[h][e] = q[h][e] as float, zeros after it.
__device__ void load_query(float* query, const uint16_t* q, int heads, int Dk) {
    const int stride = query_stride(Dk);
    for (int i = threadIdx.x; i < heads * stride; i += blockDim.x) {
        const int element = i % stride;
        query[i] = element < Dk ? bf16_to_float(q[i / stride * Dk + element]) : 0.0f;
    }
}

template <int kHeads>
__global__ void __launch_bounds__(kMaxWarps* kWarp)
    verify_attn_kernel(const ddtree_verify_attn_args args, const bool aligned) {
    DYN_SMEM(unsigned char, memory);
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int warps = blockDim.x / kWarp;
    const AttentionMemory<kHeads> shared(memory, warps, args.Dk);

    const int head_groups = args.Hq / kHeads;
    const int head = static_cast<int>(blockIdx.x % head_groups) * kHeads;
    const int64_t request_node = blockIdx.x / head_groups;
    const int node = static_cast<int>(request_node % args.N);
    const int request = static_cast<int>(request_node / args.N);
    const int64_t row = request_node * args.Hq + head;  // of q, out and lse
    uint16_t* out = args.out + row * args.Dv;
    float* lse = args.lse != nullptr ? args.lse + row : nullptr;

    const int live = min(args.node_count[request], args.N);
    if (node >= live) {
        write_nothing_seen(out, kHeads * args.Dv, lse, kHeads);
        return;  // the whole block
    }
    load_query(shared.query, args.q + row * args.Dk, kHeads, args.Dk);
    __syncthreads();

    const int kv_head = head / (args.Hq / args.Hkv);
    const int latent = args.Dk - args.Dr;
    const uint16_t* key = args.key + kv_head * args.key_head_stride;
    const uint16_t* rope = args.Dr > 0 ? args.rope + kv_head * args.rope_head_stride : nullptr;
    const uint16_t* value = args.value + kv_head * args.value_head_stride;
    const int32_t* table = args.block_table + static_cast<int64_t>(request) * args.M;
    const uint32_t* mask = args.tree_mask + request_node * args.W;
    const int32_t prefix = args.prefix_len[request];
    const int tiles = ceil_div(prefix, kWarp) + ceil_div(live, kWarp);
    float* weight = shared.weight + warp * kHeads * kWarp;
    int64_t* value_offset = shared.value_offset + warp * kWarp;
    RowState state[kHeads];

    for (int index = warp; index < tiles; index += warps) {
        const Tile tile = tile_at(index, prefix, live, mask);
        if (tile.visible == 0) {
            continue;  // the whole warp
        }
        const bool visible = (tile.visible >> lane & 1u) != 0;
        float part[kHeads][kParts] = {};
        if (visible) {
            const int32_t slot = tile.first + lane;
            const Place place = {table[slot / args.S], slot % args.S};
            value_offset[lane] = place.offset(args.value_page_stride, args.value_slot_stride);
            add_dot<kHeads>(key + place.offset(args.key_page_stride, args.key_slot_stride), shared.query,
                            query_stride(args.Dk), latent, aligned, part);
            if (args.Dr > 0) {
                add_dot<kHeads>(rope + place.offset(args.rope_page_stride, args.rope_slot_stride),
                                shared.query + latent, query_stride(args.Dk), args.Dr, aligned, part);
            }
        }
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
            const float dot = (part[h][0] + part[h][1]) + (part[h][2] + part[h][3]);
            weight[h * kWarp + lane] = state[h].add_score(visible ? dot * args.scale : kMinusInfinity);
        }
        __syncwarp();  // weights and offsets of the tile are complete
        for (uint32_t left = tile.visible; left != 0; left &= left - 1) {
            const int seen = __ffs(static_cast<int>(left)) - 1;
            const uint16_t* v = value + value_offset[seen];
#pragma unroll
            for (int i = 0; i < kValuesPerLane; ++i) {
                const int element = lane + i * kWarp;
                if (element < args.Dv) {
                    const float x = bf16_to_float(v[element]);
#pragma unroll
                    for (int h = 0; h < kHeads; ++h) {
                        state[h].sum[i] += weight[h * kWarp + seen] * x;
                    }
                }
            }
        }
        __syncwarp();  // they have been read; the next tile may overwrite them
    }

#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
        merge_and_write<kHeads>(shared, state[h], args.Dv, out + h * args.Dv, lse != nullptr ? lse + h : lse);
    }
}

bool valid(const ddtree_verify_attn_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->N, 1, kMaxNodes) &&
           args->W == ceil_div(args->N, 32) && args->Hkv >= 1 && args->Hq >= 1 && args->Hq % args->Hkv == 0 &&
           within(args->Dk, 1, kMaxKeyWidth) && within(args->Dr, 0, args->Dk) &&
           within(args->Dv, 1, kMaxValueWidth) && args->G >= 1 && within(args->S, 1, kMaxPageSlots) &&
           args->M >= 1 &&
           present(args->q, args->key, args->value, args->block_table, args->prefix_len, args->node_count,
                   args->tree_mask, args->out) &&
           (args->Dr == 0 || args->rope != nullptr);
}

// May keys be read sixteen bytes at a time?
bool keys_are_aligned(const ddtree_verify_attn_args& args) {
    const auto aligned = [](const void* base, int64_t width, int64_t page, int64_t slot, int64_t head) {
        return reinterpret_cast<uintptr_t>(base) % 16 == 0 && (width | page | slot | head) % kVector == 0;
    };
    return aligned(args.key, args.Dk - args.Dr, args.key_page_stride, args.key_slot_stride,
                   args.key_head_stride) &&
           (args.Dr == 0 || aligned(args.rope, args.Dr, args.rope_page_stride, args.rope_slot_stride,
                                    args.rope_head_stride));
}

// The host does not know prefix_len; what block_table can map bounds it.
int warps_for(const ddtree_verify_attn_args& args) {
    const int64_t tiles = (static_cast<int64_t>(args.M) * args.S + kWarp - 1) / kWarp;
    const int64_t warps = (tiles + kTilesPerWarp - 1) / kTilesPerWarp;
    return static_cast<int>(warps < kMaxWarps ? warps : kMaxWarps);
}

template <int kHeads>
int32_t launch(const ddtree_verify_attn_args& args, void* stream) {
    const int64_t blocks = static_cast<int64_t>(args.B) * args.N * (args.Hq / kHeads);
    if (!launchable(blocks)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    const int warps = warps_for(args);
    return launch_status(LAUNCH(verify_attn_kernel<kHeads>, dim3(static_cast<unsigned>(blocks)),
                                dim3(warps * kWarp),
                                AttentionMemory<kHeads>::bytes(warps, args.Dk, args.Dv),
                                static_cast<cudaStream_t>(stream), args, keys_are_aligned(args)));
}

int32_t launch_simt(const ddtree_verify_attn_args& args, void* stream) {
    const int group = args.Hq / args.Hkv;
    if (group % 4 == 0) {
        return launch<4>(args, stream);
    }
    return group % 2 == 0 ? launch<2>(args, stream) : launch<1>(args, stream);
}

// The configuration that a call with `config` runs; -1 if these arguments cannot run it.
int chosen(const ddtree_verify_attn_args& args, int32_t config) {
    if (config == DDTREE_ATTN_SIMT) {
        return config;
    }
#ifdef __CUDACC__
    if (mma::takes(args)) {
        if (config == DDTREE_ATTN_AUTO) {
            return mma::best_config(args);
        }
        return mma::runs(config) ? config : -1;
    }
#else
    (void)args;
#endif
    return config == DDTREE_ATTN_AUTO ? DDTREE_ATTN_SIMT : -1;
}

}  // namespace

uint64_t attention_workspace_bytes(const ddtree_verify_attn_args* args, int32_t config, int32_t shares) {
    if (!valid(args) || args->B == 0) {
        return 0;
    }
#ifdef __CUDACC__
    const int choice = chosen(*args, config);
    return choice <= DDTREE_ATTN_SIMT ? 0 : mma::workspace_bytes(*args, choice, shares);
#else
    (void)config;
    (void)shares;
    return 0;
#endif
}

}  // namespace ddtree

extern "C" int32_t ddtree_verify_attn_config(const ddtree_verify_attn_args* args, int32_t config, int32_t shares,
                                             void* workspace, uint64_t workspace_bytes, void* stream) {
    using namespace ddtree;
    if (!valid(args) || !within(config, DDTREE_ATTN_AUTO, DDTREE_ATTN_WGMMA) ||
        !within(shares, 0, kMaxAttentionShares)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    const int choice = chosen(*args, config);
    if (choice < 0) {
        return DDTREE_UNSUPPORTED;
    }
#ifdef __CUDACC__
    if (choice != DDTREE_ATTN_SIMT) {
        return mma::attention(*args, choice, shares, workspace, workspace_bytes, stream);
    }
#else
    (void)workspace;
    (void)workspace_bytes;
#endif
    return launch_simt(*args, stream);
}

extern "C" uint64_t ddtree_verify_attn_config_bytes(const ddtree_verify_attn_args* args, int32_t config,
                                                    int32_t shares) {
    return ddtree::attention_workspace_bytes(args, config, shares);
}

extern "C" int32_t ddtree_verify_attn(const ddtree_verify_attn_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream) {
    return ddtree_verify_attn_config(args, DDTREE_ATTN_AUTO, 0, workspace, workspace_bytes, stream);
}
