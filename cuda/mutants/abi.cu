// The entry of tree_accept, and targets that are wrong whatever the kernel is: they return without writing,
// write where nobody asked them to, crash, hang.
#include "mutant.h"

#include <cstdlib>

namespace mutants {

int32_t run_tree_accept(const ddtree_tree_accept_args& args, void* stream, Switch mutant);

namespace {

__global__ void write_word(int32_t* address, const int32_t value) { *address = value; }

// Half a minute at most, on a GPU: longer than anybody waits, and the device comes free again.
__global__ void spin(volatile int32_t* word) {
#ifdef __CUDA_ARCH__
    for (const long long start = clock64(); *word != 0x12345678 && clock64() - start < 60000000000;) {
    }
#else
    while (*word != 0x12345678) {
    }
#endif
}

int32_t scribble(const int32_t* address, int32_t value, void* stream) {
    return status_of(LAUNCH(write_word, dim3(1), dim3(1), 0, static_cast<cudaStream_t>(stream),
                            const_cast<int32_t*>(address), value));
}

int32_t before(const ddtree_tree_accept_args& args, void* stream, Switch mutant) {
    if (mutant(abi_returns_an_error)) {
        return DDTREE_LAUNCH_FAILED;
    }
    if (mutant(abi_refuses_what_it_declares)) {
        return DDTREE_UNSUPPORTED;
    }
    if (mutant(abi_crashes)) {
        std::abort();
    }
    if (mutant(abi_exits)) {
        std::_Exit(0);
    }
    if (mutant(abi_hangs)) {
        return status_of(LAUNCH(spin, dim3(1), dim3(1), 0, static_cast<cudaStream_t>(stream), args.accept_len));
    }
    return DDTREE_OK;
}

int32_t after(const ddtree_tree_accept_args& args, void* stream, Switch mutant) {
    if (mutant(abi_writes_past_the_end)) {
        return scribble(args.out_token + static_cast<int64_t>(args.B) * (args.depth_limit + 1), -1, stream);
    }
    if (mutant(abi_writes_before_the_start)) {
        return scribble(args.accept_index - 1, -1, stream);
    }
    if (mutant(abi_edits_an_input)) {
        return scribble(args.target_predict, -7, stream);
    }
    return DDTREE_OK;
}

}  // namespace
}  // namespace mutants

extern "C" int32_t ddtree_tree_accept(const ddtree_tree_accept_args* args, void*, uint64_t, void* stream) {
    using namespace mutants;
    if (!readable(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    const Switch mutant = current();
    if (args->B == 0 || mutant(abi_does_nothing)) {
        return DDTREE_OK;
    }
    int32_t status = before(*args, stream, mutant);
    if (status == DDTREE_OK) {
        status = run_tree_accept(*args, stream, mutant);
    }
    return status == DDTREE_OK ? after(*args, stream, mutant) : status;
}
