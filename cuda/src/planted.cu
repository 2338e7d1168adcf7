// The planted mode's stand-ins for a model, not under test: planted_embed makes queries and KV rows out of
// (token, position), planted_head turns attention outputs into predictions.
//
// The reference repeats both bit by bit, so the hash is fixed, and the head adds in double in a fixed order.
#include <cmath>

#include "checks.cuh"

namespace ddtree {
namespace {

constexpr int kThreads = 128;
constexpr uint32_t kQuerySalt = 0x51000000u;
constexpr uint32_t kRowSalt = 0x52000000u;
constexpr uint32_t kPositionStep = 0x85EBCA6Bu;
constexpr uint32_t kElementStep = 0xC2B2AE35u;

__device__ __forceinline__ uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

__device__ __forceinline__ uint32_t vector_seed(int32_t token, int32_t position, uint32_t salt) {
    return mix(mix(static_cast<uint32_t>(token) ^ salt) + static_cast<uint32_t>(position) * kPositionStep);
}

// One of -1, -127/128 .. 127/128: eight bits, exact in bf16.
__device__ __forceinline__ uint16_t element_value(uint32_t seed, int element) {
    const uint32_t hash = mix(seed + static_cast<uint32_t>(element) * kElementStep);
    return float_to_bf16((static_cast<int>(hash >> 24) - 128) / 128.0f);
}

// One block per (request, node).
__global__ void __launch_bounds__(kThreads) planted_embed_kernel(const ddtree_planted_embed_args args) {
    const int64_t index = blockIdx.x;
    const int request = index / args.N;
    const int node = index % args.N;
    if (node >= args.node_count[request]) {
        return;  // the whole block: rows of dead nodes keep what they hold
    }
    const int32_t token = args.node_token[index];
    const int32_t position = args.position[index];
    for (int h = 0; h < args.Hq; ++h) {
        const uint32_t seed = vector_seed(token, position, kQuerySalt + h);
        uint16_t* query = args.q + (index * args.Hq + h) * args.Dk;
        for (int e = threadIdx.x; e < args.Dk; e += kThreads) {
            query[e] = element_value(seed, e);
        }
    }
    const int32_t slot = args.prefix_len[request] + node;
    const int64_t page = args.block_table[static_cast<int64_t>(request) * args.M + slot / args.S];
    for (int layer = 0; layer < args.Y; ++layer) {
        const uint32_t seed = vector_seed(token, position, kRowSalt + layer);
        uint16_t* pool = reinterpret_cast<uint16_t*>(args.layer_base[layer]);
        uint16_t* row = pool + (page * args.S + slot % args.S) * args.R;
        for (int e = threadIdx.x; e < args.R; e += kThreads) {
            row[e] = element_value(seed, e);
        }
    }
}

__device__ __forceinline__ double product(uint16_t a, float b) {
    return static_cast<double>(bf16_to_float(a)) * static_cast<double>(b);
}

// Products of two bf16 are exact in double, so fused or not, the sum is the same. Elements go into four
// partial sums in turn, for their independence; a tail shorter than four goes into the first.
__device__ double row_logit(const uint16_t* row, const float* out, int width, double bias) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    int i = 0;
    for (; i + 4 <= width; i += 4) {
        a += product(row[i], out[i]);
        b += product(row[i + 1], out[i + 1]);
        c += product(row[i + 2], out[i + 2]);
        d += product(row[i + 3], out[i + 3]);
    }
    for (; i < width; ++i) {
        a += product(row[i], out[i]);
    }
    return ((a + b) + (c + d)) + bias;
}

// One block per (request, node); a thread takes every kThreads-th row of the head.
__global__ void __launch_bounds__(kThreads) planted_head_kernel(const ddtree_planted_head_args args) {
    DYN_SMEM(float, out);
    SHARED(double, best_logit, kThreads);
    SHARED(int, best_row, kThreads);
    const int64_t index = blockIdx.x;
    const int request = index / args.N;
    const int node = index % args.N;
    if (node >= args.node_count[request]) {
        if (threadIdx.x == 0) {
            args.target_predict[index] = kNone;
        }
        return;  // the whole block
    }
    for (int d = threadIdx.x; d < args.D; d += kThreads) {
        out[d] = bf16_to_float(args.out[index * args.D + d]);
    }
    __syncthreads();

    // Rows come in rising order, so a later equal logit never wins.
    bool finite = true;
    double best = 0.0;
    int winner = kNone;
    for (int row = threadIdx.x; row < args.V; row += kThreads) {
        const double logit =
            row_logit(args.head + static_cast<int64_t>(row) * args.D, out, args.D, args.head_bias[row]);
        finite = finite && std::isfinite(logit);
        if (winner == kNone || logit > best) {
            best = logit;
            winner = row;
        }
    }
    best_logit[threadIdx.x] = best;
    best_row[threadIdx.x] = winner;
    const bool broken = __syncthreads_or(!finite);
    if (threadIdx.x == 0) {
        for (int i = 1; i < min(kThreads, args.V); ++i) {
            if (best_logit[i] > best || (best_logit[i] == best && best_row[i] < winner)) {
                best = best_logit[i];
                winner = best_row[i];
            }
        }
        args.target_predict[index] = broken ? kNone : args.head_token[winner];
    }
}

bool valid(const ddtree_planted_embed_args* args) {
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->N, 1, kMaxNodes) && args->Hq >= 1 &&
           args->Dk >= 1 && args->R >= 1 && within(args->S, 1, kMaxPageSlots) && args->M >= 1 &&
           args->Y >= 1 &&
           present(args->node_token, args->position, args->node_count, args->prefix_len, args->block_table,
                   args->q, args->layer_base);
}

bool valid(const ddtree_planted_head_args* args) {
    constexpr int kMaxWidth = 8192;  // one output vector in shared memory
    return readable(args) && within(args->B, 0, kMaxBatch) && within(args->N, 1, kMaxNodes) && args->V >= 1 &&
           within(args->D, 1, kMaxWidth) &&
           present(args->out, args->node_count, args->head, args->head_bias, args->head_token,
                   args->target_predict);
}

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_planted_embed(const void* untyped, void* stream) {
    using namespace ddtree;
    const auto* args = static_cast<const ddtree_planted_embed_args*>(untyped);
    if (!valid(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    const unsigned blocks = static_cast<unsigned>(args->B) * args->N;
    return launch_status(LAUNCH(planted_embed_kernel, dim3(blocks), dim3(kThreads), 0,
                                static_cast<cudaStream_t>(stream), *args));
}

extern "C" int32_t ddtree_planted_head(const void* untyped, void* stream) {
    using namespace ddtree;
    const auto* args = static_cast<const ddtree_planted_head_args*>(untyped);
    if (!valid(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    const unsigned blocks = static_cast<unsigned>(args->B) * args->N;
    return launch_status(LAUNCH(planted_head_kernel, dim3(blocks), dim3(kThreads), args->D * sizeof(float),
                                static_cast<cudaStream_t>(stream), *args));
}
