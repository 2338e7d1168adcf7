/* A libcuda.so.1 made of host memory: the calls that the harness makes, without a GPU.
 *
 * A library's work has already happened when its call returns, so a graph cannot be recorded: stream capture
 * says NOT_SUPPORTED, unless FAKE_CUDA_CAPTURE asks for a graph that replays nothing (a target that is then
 * found out by its stale outputs). FAKE_CUDA_DEVICES=0 shows no device; FAKE_CUDA_FAULT=n lets the n-th
 * cuCtxSynchronize and all later ones fail as an illegal address does.
 *
 * Host functions and asynchronous copies wait in their stream until the device is synchronised, or until a
 * library that works on this stream lets the work before it happen (fake_cuda_run_stream). For the harness such a
 * call returns while the stream still pauses. Work that a library puts on another stream happens at once, or, where
 * the pause is shorter than the FAKE_CUDA_BUSY microseconds for which the device serves others, after the pause
 * and what follows it (fake_cuda_other_stream). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))
typedef int result;
enum { SUCCESS = 0, NO_DEVICE = 100, NOT_READY = 600, ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801 };

static int setting(const char* name, int otherwise) {
    const char* text = getenv(name);
    return text ? atoi(text) : otherwise;
}

API result cuInit(unsigned flags) { return flags == 0 && setting("FAKE_CUDA_DEVICES", 1) ? SUCCESS : NO_DEVICE; }
API result cuDeviceGetCount(int* count) { *count = setting("FAKE_CUDA_DEVICES", 1); return SUCCESS; }
API result cuDeviceGet(int* device, int ordinal) { *device = ordinal; return SUCCESS; }
API result cuDevicePrimaryCtxRetain(void** context, int device) { (void)device; *context = (void*)1; return SUCCESS; }
API result cuCtxSetCurrent(void* context) { return context ? SUCCESS : 1; }
API result cuDeviceGetName(char* name, int length, int device) {
    (void)device;
    strncpy(name, "Fake GPU", (size_t)length);
    return SUCCESS;
}
API result cuDriverGetVersion(int* version) { *version = 13010; return SUCCESS; }
API result cuDeviceTotalMem_v2(size_t* bytes, int device) { (void)device; *bytes = (size_t)1 << 30; return SUCCESS; }
API result cuDeviceGetAttribute(int* value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 132;
    return SUCCESS;
}
API result cuGetErrorName(int code, const char** name) {
    *name = code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == NOT_SUPPORTED   ? "CUDA_ERROR_NOT_SUPPORTED"
          : code == NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
                                    : NULL;
    return *name ? SUCCESS : 1;
}
API result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    *address = (uint64_t)(uintptr_t)malloc(bytes);
    return *address ? SUCCESS : 2;
}
API result cuMemFree_v2(uint64_t address) { free((void*)(uintptr_t)address); return SUCCESS; }
API result cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
    memcpy((void*)(uintptr_t)to, from, bytes);
    return SUCCESS;
}
API result cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
    memcpy(to, (const void*)(uintptr_t)from, bytes);
    return SUCCESS;
}

/* One stream has work at a time: each entry is a copy, or (to == 0) a host function. */
static struct work { void* stream; uint64_t to; const void* from; size_t bytes; void (*function)(void*); void* data; } queue[4096];
static int queued;
static result enqueue(struct work item) {
    if (queued == 4096 || item.stream == NULL) return 1;
    queue[queued++] = item;
    return SUCCESS;
}
API void fake_cuda_run_stream(void* stream) {
    int kept = 0;
    for (int i = 0; i < queued; ++i) {
        struct work item = queue[i];
        if (stream != NULL && item.stream != stream) queue[kept++] = item;
        else if (item.to != 0) memcpy((void*)(uintptr_t)item.to, item.from, item.bytes);
        else item.function(item.data);
    }
    queued = kept;
}
API result cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
    return enqueue((struct work){.stream = stream, .function = function, .data = data});
}
static int arrived; /* the host can know that a pause is over */
API void fake_cuda_other_stream(void) {
    for (int i = 0; i < queued; ++i) {
        if (queue[i].to == 0 && (intptr_t)queue[i].data < setting("FAKE_CUDA_BUSY", 0)) {
            fake_cuda_run_stream(NULL);
            arrived = 1;
        }
    }
}
API result cuStreamQuery(void* stream) { return stream ? SUCCESS : 1; }
API result cuEventQuery(void* event) { return event == NULL ? 1 : arrived ? SUCCESS : NOT_READY; }
API result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    return enqueue((struct work){.stream = stream, .to = to, .from = from, .bytes = bytes});
}
API result cuMemAllocHost_v2(void** address, size_t bytes) { *address = malloc(bytes); return *address ? SUCCESS : 2; }
API result cuMemFreeHost(void* address) { free(address); return SUCCESS; }

API result cuCtxSynchronize(void) {
    fake_cuda_run_stream(NULL);
    arrived = 0;
    static int calls;
    int fault = setting("FAKE_CUDA_FAULT", 0);
    return fault && ++calls >= fault ? ILLEGAL_ADDRESS : SUCCESS;
}
API result cuStreamCreate(void** stream, unsigned flags) { (void)flags; *stream = malloc(1); return SUCCESS; }
API result cuEventCreate(void** event, unsigned flags) { (void)flags; *event = calloc(1, 8); return SUCCESS; }
API result cuEventRecord(void* event, void* stream) {
    struct timespec now;
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *(double*)event = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
    return SUCCESS;
}
API result cuEventElapsedTime(float* milliseconds, void* start, void* end) {
    *milliseconds = (float)(*(double*)end - *(double*)start);
    return SUCCESS;
}
API result cuStreamBeginCapture_v2(void* stream, int mode) {
    (void)stream, (void)mode;
    return setting("FAKE_CUDA_CAPTURE", 0) ? SUCCESS : NOT_SUPPORTED;
}
API result cuStreamEndCapture(void* stream, void** graph) { (void)stream; *graph = malloc(1); return SUCCESS; }
API result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
    (void)graph, (void)flags;
    *executable = malloc(1);
    return SUCCESS;
}
API result cuGraphDestroy(void* graph) { free(graph); return SUCCESS; }
API result cuGraphExecDestroy(void* executable) { free(executable); return SUCCESS; }
API result cuGraphLaunch(void* executable, void* stream) { (void)executable, (void)stream; return SUCCESS; }
