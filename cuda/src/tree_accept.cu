// tree_accept: the greedy walk of each tree against the target's predictions; one block per request.
#include "accept.cuh"

namespace ddtree {
namespace {

template <int kEach>
__global__ void __launch_bounds__(kMaxAcceptThreads) tree_accept_kernel(const ddtree_tree_accept_args args) {
    DYN_SMEM(int32_t, memory);
    SHARED(int32_t, stops, kSharedStops);
    const int request = blockIdx.x;
    const Tree tree(memory, args.N);
    clear_tree<kEach>(tree);
    grid_dependency_release();  // so early that the next kernel waits beside this one: 0.06 us less
    grid_dependency_wait();
    const Path path = accept_path<kEach>(args, tree, stops, request);
    if (threadIdx.x < kWarp) {
        write_path(args, request, path);
    }
}

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_tree_accept(const ddtree_tree_accept_args* args, void*, uint64_t, void* stream) {
    using namespace ddtree;
    if (!valid(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    const dim3 blocks(args->B);
    const auto threads_for = [&](int each) { return dim3(kWarp * ceil_div(ceil_div(args->N, each), kWarp)); };
    const int bytes = Tree::bytes(args->N);
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    return launch_status(
        args->N <= kOneEach
            ? LAUNCH_DEPENDENT(tree_accept_kernel<1>, blocks, threads_for(1), bytes, on, *args)
            : LAUNCH_DEPENDENT(tree_accept_kernel<2>, blocks, threads_for(2), bytes, on, *args));
}
