// What can go wrong on a GPU alone: other streams, and what is captured in a graph. The emulator runs every launch
// when it is made; there these functions do the right thing.
#pragma once

#include <cstring>

#include "mutant.h"

namespace mutants {
namespace {

#ifdef __CUDACC__

// A stream and an event of this library's own, made at first use.
struct Side {
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;

    Side() {
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    }
};

inline Side& side() {
    static Side made;
    return made;
}

// The stream that a commit is put on: one that nobody waits for, and that waits for the given one at most.
inline void* commit_stream(void* stream, Switch mutant) {
    if (mutant(device_commit_on_side_stream)) {
        return side().stream;
    }
    if (mutant(device_commit_forked_not_joined)) {
        cudaEventRecord(side().event, static_cast<cudaStream_t>(stream));
        cudaStreamWaitEvent(side().stream, side().event, 0);
        return side().stream;
    }
    return stream;
}

// `values` of a call that is captured are copied at once, so that every replay reads what they were then.
inline const int32_t* as_captured(const int32_t* values, int count, void* stream) {
    constexpr size_t kRoom = 4096;
    static int32_t* kept = nullptr;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status);
    if (status != cudaStreamCaptureStatusActive || static_cast<size_t>(count) > kRoom) {
        return values;
    }
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (kept == nullptr) {
        cudaMalloc(&kept, kRoom * sizeof(int32_t));
    }
    cudaMemcpyAsync(kept, values, count * sizeof(int32_t), cudaMemcpyDeviceToDevice, side().stream);
    cudaStreamSynchronize(side().stream);
    cudaThreadExchangeStreamCaptureMode(&mode);
    return kept;
}

// Waits, on the host, for one word of the device.
inline int32_t read_by_host(const int32_t* word, void* stream) {
    static int32_t seen;
    const auto on = static_cast<cudaStream_t>(stream);
    const cudaError_t copied = cudaMemcpyAsync(&seen, word, sizeof(seen), cudaMemcpyDeviceToHost, on);
    return status_of(copied == cudaSuccess ? cudaStreamSynchronize(on) : copied);
}

inline void synchronise(void* stream) { cudaStreamSynchronize(static_cast<cudaStream_t>(stream)); }

// Clears on the default stream, whatever stream the kernel that follows is on.
inline void clear_beside(void* array, size_t bytes) { cudaMemset(array, 0, bytes); }

#else

inline void* commit_stream(void* stream, Switch) { return stream; }
inline const int32_t* as_captured(const int32_t* values, int, void*) { return values; }
inline int32_t read_by_host(const int32_t*, void*) { return DDTREE_OK; }
inline void synchronise(void*) {}
inline void clear_beside(void* array, size_t bytes) { std::memset(array, 0, bytes); }

#endif

}  // namespace
}  // namespace mutants
