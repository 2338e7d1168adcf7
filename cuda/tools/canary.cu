// A library that is right and has one defect that only a checker sees, to prove that the checker looks.
//
// Forwards to the library that DDTREE_REAL names; tree_accept also launches the kernel that DDTREE_CANARY names:
// memcheck, racecheck, initcheck or synccheck. Breaks the rules of ddtree.h (allocates, keeps state) on purpose.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "ddtree.h"

static __global__ void past_the_end(int* words) { words[threadIdx.x + 1] = 1; }  // the last thread writes past it

static __global__ void race(int* out) {
    __shared__ int shared[64];
    shared[threadIdx.x] = static_cast<int>(threadIdx.x);
    out[threadIdx.x] = shared[63 - threadIdx.x];  // no barrier between the two warps
}

static __global__ void read_unwritten(const int* words, int* out) { out[threadIdx.x] = words[threadIdx.x] & 1; }

static __global__ void wrong_warp_mask(int* out) {
    const unsigned lower = __ballot_sync(0xffffffffu, threadIdx.x < 16);
    if (threadIdx.x < 16) out[threadIdx.x] = 1;
    __syncwarp(lower);  // called by threads that the mask does not name
}

static void* real(const char* name) {
    static void* handle = dlopen(getenv("DDTREE_REAL"), RTLD_NOW | RTLD_LOCAL);
    void* symbol = handle ? dlsym(handle, name) : nullptr;
    if (!symbol) abort();
    return symbol;
}

static void sing(cudaStream_t stream) {
    static int* words = nullptr;
    static int* out = nullptr;
    const char* song = getenv("DDTREE_CANARY");
    if (!song) return;
    if (!words && (cudaMalloc(&words, 64 * sizeof(int)) != cudaSuccess ||
                   cudaMalloc(&out, 64 * sizeof(int)) != cudaSuccess))
        abort();
    if (!strcmp(song, "memcheck")) past_the_end<<<1, 64, 0, stream>>>(words);
    if (!strcmp(song, "racecheck")) race<<<1, 64, 0, stream>>>(out);
    if (!strcmp(song, "initcheck")) read_unwritten<<<1, 64, 0, stream>>>(words, out);
    if (!strcmp(song, "synccheck")) wrong_warp_mask<<<1, 32, 0, stream>>>(out);
}

extern "C" int32_t ddtree_query(ddtree_info* info) {
    const int32_t status = reinterpret_cast<int32_t (*)(ddtree_info*)>(real("ddtree_query"))(info);
    info->capabilities &= DDTREE_CAP_TREE_ACCEPT | DDTREE_CAP_STOP_AND_LIMIT;
    info->description = "canary: right, with a defect for a checker";
    return status;
}

extern "C" int32_t ddtree_workspace_bytes(int32_t kernel, const void* args, uint64_t* bytes) {
    const auto ask = reinterpret_cast<int32_t (*)(int32_t, const void*, uint64_t*)>(real("ddtree_workspace_bytes"));
    return ask(kernel, args, bytes);
}

extern "C" int32_t ddtree_tree_accept(const ddtree_tree_accept_args* args, void* workspace, uint64_t workspace_bytes,
                                      void* stream) {
    sing(static_cast<cudaStream_t>(stream));
    using Call = int32_t (*)(const void*, void*, uint64_t, void*);
    return reinterpret_cast<Call>(real("ddtree_tree_accept"))(args, workspace, workspace_bytes, stream);
}
