/* The driver of ../targets/fake_cuda.c, with graphs: a library that takes part says what it enqueues while a
 * stream is captured (fake_cuda_record), and a launch does it again. FAKE_CUDA_COUNT names a file to which the
 * number of recorded calls of every launch is appended, and "f" for every flush. */
#define cuStreamBeginCapture_v2 plain_begin_capture
#define cuStreamEndCapture plain_end_capture
#define cuGraphInstantiateWithFlags plain_instantiate
#define cuGraphDestroy plain_destroy
#define cuGraphExecDestroy plain_exec_destroy
#define cuGraphLaunch plain_launch
#define cuDeviceGetAttribute plain_attribute
#include "../targets/fake_cuda.c"
#undef cuStreamBeginCapture_v2
#undef cuStreamEndCapture
#undef cuGraphInstantiateWithFlags
#undef cuGraphDestroy
#undef cuGraphExecDestroy
#undef cuGraphLaunch
#undef cuDeviceGetAttribute

#include <stdio.h>

typedef int32_t (*kernel)(const void* args, void* workspace, uint64_t bytes, void* stream);
struct call { kernel function; char args[512]; void* workspace; uint64_t bytes; };
struct graph { int count; struct call calls[256]; };
static struct graph* open_graph;

static void note(const char* text) {
    const char* path = getenv("FAKE_CUDA_COUNT");
    FILE* file = path ? fopen(path, "a") : NULL;
    if (file == NULL) return;
    fputs(text, file);
    fclose(file);
}

API int fake_cuda_record(kernel function, const void* args, size_t size, void* workspace, uint64_t bytes) {
    if (open_graph == NULL) return 0;
    struct call* call = &open_graph->calls[open_graph->count++];
    call->function = function, call->workspace = workspace, call->bytes = bytes;
    memcpy(call->args, args, size);
    return 1;
}

API result cuDeviceGetAttribute(int* value, int attribute, int device) {
    if (attribute == 38) { *value = setting("FAKE_CUDA_L2", 4096); return SUCCESS; }
    return plain_attribute(value, attribute, device);
}
API result cuDeviceGetPCIBusId(char* text, int length, int device) {
    (void)device;
    strncpy(text, "0000:00:00.0", (size_t)length);
    return SUCCESS;
}
API result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
    *total = (size_t)1 << 30;
    *free_bytes = (size_t)setting("FAKE_CUDA_FREE", 1 << 26);
    return SUCCESS;
}
API result cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void* stream) {
    (void)stream;
    memset((void*)(uintptr_t)address, value, bytes);
    note("f\n");
    return SUCCESS;
}
API result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    (void)stream;
    memcpy((void*)(uintptr_t)to, (void*)(uintptr_t)from, bytes);
    return SUCCESS;
}
API result cuStreamBeginCapture_v2(void* stream, int mode) {
    (void)stream, (void)mode;
    if (setting("FAKE_CUDA_NO_GRAPHS", 0)) return NOT_SUPPORTED;
    open_graph = calloc(1, sizeof *open_graph);
    return SUCCESS;
}
API result cuStreamEndCapture(void* stream, void** graph) {
    (void)stream;
    *graph = open_graph;
    open_graph = NULL;
    return SUCCESS;
}
API result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
    (void)flags;
    *executable = malloc(sizeof(struct graph));
    memcpy(*executable, graph, sizeof(struct graph));
    return SUCCESS;
}
API result cuGraphDestroy(void* graph) { free(graph); return SUCCESS; }
API result cuGraphExecDestroy(void* executable) { free(executable); return SUCCESS; }
API result cuGraphLaunch(void* executable, void* stream) {
    struct graph* graph = executable;
    char text[32];
    snprintf(text, sizeof text, "%d\n", graph->count);
    note(text);
    int kept = setting("FAKE_CUDA_SKIP", 0) ? graph->count - 1 : graph->count;
    for (int i = 0; i < kept; ++i) {
        struct call* call = &graph->calls[i];
        if (call->function(call->args, call->workspace, call->bytes, stream) != 0) return ILLEGAL_ADDRESS;
    }
    return SUCCESS;
}
