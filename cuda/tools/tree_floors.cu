// What bench_trees.py times beside the kernels: an empty kernel; a greedy walk by one thread per request over int64
// links in global memory, the shape of SGLang's verify_tree_greedy (own transcription); and moves of rows by a kernel
// that has nothing to find out.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void empty_kernel() {}

__global__ void walk_kernel(int64_t* predicts, int64_t* accept_index, int64_t* accepted, const int64_t* token,
                            const int64_t* slot, const int64_t* next_token, const int64_t* next_sibling,
                            const int64_t* target, int nodes, int path) {
    const int64_t tree = static_cast<int64_t>(blockIdx.x) * nodes;
    const int64_t out = static_cast<int64_t>(blockIdx.x) * path;
    int64_t last = slot[tree];
    accept_index[out] = last;
    int count = 0;
    int64_t node = 0;
    for (int step = 1; step < path; ++step) {
        node = next_token[tree + node];
        while (node != -1) {
            const int64_t draft = slot[tree + node];
            const int64_t wanted = target[last];
            if (token[tree + node] == wanted) {
                predicts[last] = wanted;
                accept_index[out + ++count] = draft;
                last = draft;
                break;
            }
            node = next_sibling[tree + node];
        }
        if (node == -1) {
            break;
        }
    }
    accepted[blockIdx.x] = count;
    predicts[last] = target[last];
}

constexpr int kMoves = 16;

struct Moves {  // of rows, in bytes from the start of a layer
    int64_t from[kMoves];
    int64_t to[kMoves];
};

// A block for each layer, a thread for 16 bytes of a row, as in kv_commit.
__global__ void moves_kernel(uint8_t* pool, int64_t layer_bytes, const Moves moves, int32_t* new_len, int32_t length) {
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
    uint8_t* column = pool + blockIdx.x * layer_bytes + threadIdx.x * sizeof(uint4);
    uint4 piece[kMoves];
#pragma unroll
    for (int i = 0; i < kMoves; ++i) {
        piece[i] = *reinterpret_cast<const uint4*>(column + moves.from[i]);
    }
#pragma unroll
    for (int i = 0; i < kMoves; ++i) {
        __stcs(reinterpret_cast<uint4*>(column + moves.to[i]), piece[i]);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *new_len = length;
    }
}

}  // namespace

extern "C" int floor_empty(int blocks, int threads, void* stream) {
    empty_kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>();
    return cudaGetLastError();
}

extern "C" int floor_walk(int64_t* predicts, int64_t* accept_index, int64_t* accepted, const int64_t* token,
                          const int64_t* slot, const int64_t* next_token, const int64_t* next_sibling,
                          const int64_t* target, int requests, int nodes, int path, void* stream) {
    walk_kernel<<<requests, 1, 0, static_cast<cudaStream_t>(stream)>>>(
        predicts, accept_index, accepted, token, slot, next_token, next_sibling, target, nodes, path);
    return cudaGetLastError();
}

// kMoves rows of `row_bytes`, a multiple of 16, in every layer.
extern "C" int floor_moves(uint8_t* pool, int64_t layer_bytes, int layers, int row_bytes, const int64_t* from,
                           const int64_t* to, int32_t* new_len, int32_t length, void* stream) {
    Moves moves;
    for (int i = 0; i < kMoves; ++i) {
        moves.from[i] = from[i];
        moves.to[i] = to[i];
    }
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(layers);
    config.blockDim = dim3(row_bytes / sizeof(uint4));
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, moves_kernel, pool, layer_bytes, moves, new_len, length);
}
