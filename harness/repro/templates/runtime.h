// Memory of either space, the arrays of a case, and a library with the C ABI. Included by main.cpp.
#pragma once

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "ddtree.h"

[[noreturn]] static void fail(const std::string& what) {
    fprintf(stderr, "repro: %s\n", what.c_str());
    exit(2);
}

// ---- memory: the host's with a C++ compiler, the device's with nvcc -----------------------------------

#ifdef __CUDACC__
static const uint32_t kSpace = DDTREE_MEMORY_DEVICE;
static void check(cudaError_t error, const char* what) {
    if (error != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorString(error));
}
static char* allocate(size_t bytes) {
    void* made = nullptr;
    check(cudaMalloc(&made, bytes), "cudaMalloc");
    return static_cast<char*>(made);
}
static void upload(char* to, const void* from, size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
    check(cudaDeviceSynchronize(), "copy to the device");
}
static void download(void* to, const char* from, size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}
static void synchronize() { check(cudaDeviceSynchronize(), "the call"); }
static void* new_stream() {
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    return stream;
}
#else
static const uint32_t kSpace = DDTREE_MEMORY_HOST;
static char* allocate(size_t bytes) {
    void* made = nullptr;
    if (posix_memalign(&made, 256, bytes) != 0) fail("out of memory");
    return static_cast<char*>(made);
}
static void upload(char* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
static void download(void* to, const char* from, size_t bytes) { memcpy(to, from, bytes); }
static void synchronize() {}
static void* new_stream() { return nullptr; }
#endif

// ---- arrays -------------------------------------------------------------------------------------------

struct Array {
    const char* name;
    const char* type;            // i32, u32, f32, bf16, u8
    const char* role;            // in, out, pool (in and out, one allocation a layer), tail (see write_tail)
    bool by_step;                // the file holds one array a step
    size_t item, count;          // bytes of an element, elements of one step
    std::vector<size_t> shape;   // of one step
    size_t pieces, piece_stride; // where pages lie apart: how many, how many bytes from one to the next; or 0
};

static std::map<std::string, char*> buffers;

static char* at(const std::string& name, size_t offset) {
    const auto found = buffers.find(name);
    return found == buffers.end() || !found->second ? nullptr : found->second + offset;
}

template <class T>
static void set(T*& member, char* address) {
    member = reinterpret_cast<T*>(address);
}

static std::vector<char> load(const std::string& file, size_t bytes) {
    std::vector<char> data(bytes);
    const std::string path = "arrays/" + file + ".bin";
    FILE* in = fopen(path.c_str(), "rb");
    if (!in) fail("cannot open " + path + "; run this in its own folder");
    const size_t got = bytes ? fread(data.data(), 1, bytes, in) : 0;
    fclose(in);
    if (got != bytes) fail(path + " is too short; write it again with `harness repro`");
    return data;
}

// ---- the library --------------------------------------------------------------------------------------

struct Library {
    void* handle;
    void* stream;
    ddtree_info info;
    ddtree_hints hints;

    template <class F>
    F symbol(const char* name) const {
        return reinterpret_cast<F>(dlsym(handle, name));
    }

    ddtree_hook hook(const char* name) const {
        const auto found = symbol<ddtree_hook>(name);
        if (!found) fail(std::string("the library exports no ") + name + ", which this case needs");
        return found;
    }

    // Workspace, plan and the call itself: `name` is a good place for a breakpoint.
    int32_t run(const char* name, int32_t kernel, const void* args) const {
        const auto function = symbol<int32_t (*)(const void*, void*, uint64_t, void*)>(name);
        if (!function) fail(std::string("the library exports no ") + name);
        uint64_t bytes = 0;
        const auto ask = symbol<int32_t (*)(int32_t, const void*, uint64_t*)>("ddtree_workspace_bytes");
        int32_t status = ask ? ask(kernel, args, &bytes) : DDTREE_OK;
        if (status != DDTREE_OK) return status;
        char* workspace = bytes ? allocate(bytes) : nullptr;
        const std::vector<char> fill(bytes, 0x5A);
        if (bytes) upload(workspace, fill.data(), bytes);
        const auto plan = symbol<int32_t (*)(int32_t, const void*, const ddtree_hints*)>("ddtree_plan");
        if (plan && (status = plan(kernel, args, &hints)) != DDTREE_OK) return status;
        return function(args, workspace, bytes, stream);
    }
};
