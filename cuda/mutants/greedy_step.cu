// greedy_step: the four kernels in a row, and what can go wrong between kernels that are right.
#include "mutant.h"

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

// What a mutant remembers of an earlier call. Host memory: emulated targets only.
struct Memory {
    int of = nothing;
    bool filled = false;
    int32_t words[4096];

    // The last count above 0 of each request, put where there is 0 now.
    void revive(int32_t* counts, int64_t count, Switch mutant) {
        for (int64_t i = 0; i < count && i < 4096; ++i) {
            words[i] = of != mutant.selected ? 0 : words[i];
            words[i] = counts[i] != 0 ? counts[i] : words[i];
            counts[i] = words[i];
        }
        of = mutant.selected;
    }

    // `words` of the first call, put over what the array holds now.
    void restore(int32_t* array, int64_t count, Switch mutant) {
        filled = filled && of == mutant.selected;
        of = mutant.selected;
        for (int64_t i = 0; i < count && i < 4096; ++i) {
            if (!filled) {
                words[i] = array[i];
            } else {
                array[i] = words[i];
            }
        }
        filled = true;
    }
};

struct Step {
    const ddtree_greedy_step_args& args;
    void* workspace;
    uint64_t bytes;
    void* stream;
    int32_t status = DDTREE_OK;

    // Runs `next` unless something failed before.
    template <class Next>
    void then(Next next) {
        status = status == DDTREE_OK ? next() : status;
    }
    void build() {
        then([&] { return ddtree_tree_build(args.build, workspace, bytes, stream); });
    }
    void before_attn() {
        then([&] { return call(args.before_attn, args.before_attn_context, stream); });
    }
    void attn() {
        then([&] { return ddtree_verify_attn(args.attn, workspace, bytes, stream); });
    }
    void after_attn() {
        then([&] { return call(args.after_attn, args.after_attn_context, stream); });
    }
    void accept() {
        then([&] { return ddtree_tree_accept(args.accept, workspace, bytes, stream); });
    }
    void commit() {
        then([&] { return ddtree_kv_commit(args.commit, workspace, bytes, stream); });
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
    const ddtree_tree_build_args& tree = *args->build;
    Step step = {*args, workspace, workspace_bytes, stream};
    if (mutant(step_attention_before_build)) {
        step.attn();
    }
    step.build();
#ifndef __CUDACC__
    static Memory memory;
    if (mutant(step_first_mask_kept)) {
        memory.restore(reinterpret_cast<int32_t*>(tree.tree_mask),
                       static_cast<int64_t>(tree.B) * tree.N * tree.W, mutant);
    } else if (mutant(step_first_count_kept)) {
        memory.restore(tree.node_count, tree.B, mutant);
    } else if (mutant(step_left_requests_planned)) {
        memory.revive(tree.node_count, tree.B, mutant);
    } else if (mutant(step_first_links_kept)) {
        memory.restore(tree.next_sibling, static_cast<int64_t>(tree.B) * tree.N, mutant);
    } else if (mutant(step_first_positions_kept)) {
        memory.restore(tree.position, static_cast<int64_t>(tree.B) * tree.N, mutant);
    }
#endif
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
    ddtree_kv_commit_args commit = *args->commit;
#ifndef __CUDACC__
    if (mutant(step_first_lengths_kept)) {
        memory.restore(const_cast<int32_t*>(commit.accept_len), commit.B, mutant);
    }
#endif
    if (mutant(step_commits_one_layer)) {
        commit.Y = 1;
    }
    if (!mutant(step_commit_missed) && !mutant(step_commit_before_accept)) {
        step.then([&] { return ddtree_kv_commit(&commit, workspace, workspace_bytes, stream); });
    }
    if (mutant(step_commits_twice)) {
        step.commit();
    }
    if (mutant(step_root_overwritten_by_bonus)) {
        step.then([&] { return copy(tree.node_token, args->accept->bonus_token, 1, stream); });
    }
    return step.status;
}
