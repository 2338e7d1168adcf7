// greedy_step: the four kernels in a row on one stream, the engine's model work between them.
//
// The host only enqueues: nothing is read back, so the whole step can be captured in one graph. The
// workspace is free again when a kernel ends, so all four share it.
#include "checks.cuh"

namespace ddtree {
namespace {

int32_t call_hook(ddtree_hook hook, const void* context, void* stream) {
    return hook == nullptr ? DDTREE_OK : hook(context, stream);
}

}  // namespace
}  // namespace ddtree

extern "C" int32_t ddtree_greedy_step(const ddtree_greedy_step_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream) {
    using namespace ddtree;
    if (!readable(args) || !present(args->build, args->attn, args->accept, args->commit)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    int32_t status = ddtree_tree_build(args->build, workspace, workspace_bytes, stream);
    if (status == DDTREE_OK) {
        status = call_hook(args->before_attn, args->before_attn_context, stream);
    }
    if (status == DDTREE_OK) {
        status = ddtree_verify_attn(args->attn, workspace, workspace_bytes, stream);
    }
    if (status == DDTREE_OK) {
        status = call_hook(args->after_attn, args->after_attn_context, stream);
    }
    if (status == DDTREE_OK) {
        status = ddtree_tree_accept(args->accept, workspace, workspace_bytes, stream);
    }
    if (status == DDTREE_OK) {
        status = ddtree_kv_commit(args->commit, workspace, workspace_bytes, stream);
    }
    return status;
}
