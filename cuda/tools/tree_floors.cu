// What bench_trees.py times beside the kernels: an empty kernel, and a greedy walk by one thread per request
// over int64 links in global memory, the shape of SGLang's verify_tree_greedy (own transcription).
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
