// greedy_step: the four kernels in a row, and what can go wrong between kernels that are right.
#include "device.h"

namespace mutants {
namespace {

int32_t call(ddtree_hook hook, const void* context, void* stream) {
    return hook == nullptr ? DDTREE_OK : hook(context, stream);
}

__global__ void copy_words(int32_t* to, const int32_t* from, const int count) {
    for (int i = threadIdx.x; i < count; i += kThreads) {
        to[i] = from[i];
    }
}

int32_t copy(int32_t* to, const int32_t* from, int count, void* stream) {
    return status_of(LAUNCH(copy_words, dim3(1), dim3(kThreads), 0, static_cast<cudaStream_t>(stream), to, from,
                            count));
}

// What a mutant remembers of an earlier call, in the target's memory: a replayed graph remembers it too.
struct Memory {
    int32_t of;  // the mutant that filled it
    int32_t words[4096];
};

__device__ Memory memory;

__global__ void restore_words(int32_t* array, const int count, const Switch mutant) {
    const bool filled = memory.of == mutant.selected;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kThreads) {
        if (mutant(step_left_requests_planned)) {  // the last count above 0, put where there is 0 now
            const int32_t before = filled ? memory.words[i] : 0;
            memory.words[i] = array[i] != 0 ? array[i] : before;
            array[i] = memory.words[i];
        } else if (filled) {  // what the first call had
            array[i] = memory.words[i];
        } else {
            memory.words[i] = array[i];
        }
    }
    if (threadIdx.x == 0) {
        memory.of = mutant.selected;
    }
}

int32_t restore(const void* array, int64_t count, void* stream, Switch mutant) {
    return status_of(LAUNCH(restore_words, dim3(1), dim3(kThreads), 0, static_cast<cudaStream_t>(stream),
                            static_cast<int32_t*>(const_cast<void*>(array)), static_cast<int>(within(count, 0, 4096)),
                            mutant));
}

// The calls of one step, each made unless one before it failed.
struct Step {
    const ddtree_greedy_step_args& args;
    void* workspace;
    uint64_t bytes;
    void* stream;
    Switch mutant;
    int32_t status = DDTREE_OK;

    template <class Next>
    void then(Next next) {
        status = status == DDTREE_OK ? next() : status;
    }
    void* hook_stream() const { return mutant(device_hooks_on_default_stream) ? nullptr : stream; }

    void build() {
        then([&] { return ddtree_tree_build(args.build, workspace, bytes, stream); });
        if (mutant(device_count_read_by_host)) {
            then([&] { return read_by_host(args.build->node_count, stream); });
        }
    }
    void remember() {
        const ddtree_tree_build_args& tree = *args.build;
        const int64_t nodes = static_cast<int64_t>(tree.B) * tree.N;
        if (mutant(step_first_mask_kept)) {
            then([&] { return restore(tree.tree_mask, nodes * tree.W, stream, mutant); });
        } else if (mutant(step_first_count_kept) || mutant(step_left_requests_planned)) {
            then([&] { return restore(tree.node_count, tree.B, stream, mutant); });
        } else if (mutant(step_first_links_kept)) {
            then([&] { return restore(tree.next_sibling, nodes, stream, mutant); });
        } else if (mutant(step_first_positions_kept)) {
            then([&] { return restore(tree.position, nodes, stream, mutant); });
        }
    }
    void before_attn() {
        then([&] { return call(args.before_attn, args.before_attn_context, hook_stream()); });
    }
    void attn() {
        then([&] { return ddtree_verify_attn(args.attn, workspace, bytes, stream); });
    }
    void after_attn() {
        then([&] { return call(args.after_attn, args.after_attn_context, hook_stream()); });
    }
    void accept() {
        ddtree_tree_accept_args accept = *args.accept;
        if (mutant(device_limit_baked)) {
            accept.token_limit = as_captured(accept.token_limit, accept.B, stream);
        }
        then([&] { return ddtree_tree_accept(&accept, workspace, bytes, stream); });
        if (mutant(device_synchronises)) {
            synchronise(stream);
        }
    }
    void commit() {
        ddtree_kv_commit_args commit = *args.commit;
        if (mutant(step_first_lengths_kept)) {
            then([&] { return restore(commit.accept_len, commit.B, stream, mutant); });
        }
        if (mutant(step_commits_one_layer)) {
            commit.Y = 1;
        }
        if (mutant(device_prefix_baked)) {
            commit.prefix_len = as_captured(commit.prefix_len, commit.B, stream);
        }
        then([&] { return ddtree_kv_commit(&commit, workspace, bytes, commit_stream(stream, mutant)); });
    }
};

}  // namespace
}  // namespace mutants

extern "C" int32_t ddtree_greedy_step(const ddtree_greedy_step_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream) {
    using namespace mutants;
    if (!readable(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    const Switch mutant = current();
    Step step = {*args, workspace, workspace_bytes, stream, mutant};
    if (mutant(step_attention_before_build)) {
        step.attn();
    }
    step.build();
    step.remember();
    if (!mutant(step_hook_before_attention_missed) && !mutant(step_hook_before_comes_late)) {
        step.before_attn();
    }
    if (!mutant(step_attention_before_build)) {
        step.attn();
    }
    if (mutant(step_hook_before_comes_late)) {
        step.before_attn();
    }
    if (mutant(step_accept_before_hook)) {
        step.accept();
        step.after_attn();
    } else {
        if (!mutant(step_hook_after_attention_missed)) {
            step.after_attn();
        }
        if (mutant(step_commit_before_accept)) {
            step.commit();
        }
        step.accept();
    }
    if (!mutant(step_commit_missed) && !mutant(step_commit_before_accept)) {
        step.commit();
    }
    if (mutant(step_commits_twice)) {
        step.commit();
    }
    if (mutant(step_root_overwritten_by_bonus)) {
        step.then([&] { return copy(args->build->node_token, args->accept->bonus_token, 1, stream); });
    }
    return step.status;
}
