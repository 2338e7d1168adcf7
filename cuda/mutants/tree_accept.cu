// tree_accept, as plainly as it can be said, and what can go wrong with it.
//
// One block per request. All threads bring the tree into shared memory and check its links, the last one walks.
// Indices are kept inside the tree, so that a mutant without a check reads a wrong node, not foreign memory.
#include "accept_walk.h"

namespace mutants {
namespace {

__global__ void tree_accept_kernel(const ddtree_tree_accept_args args, const Switch mutant) {
    DYN_SMEM(int32_t, memory);
    SHARED(uint32_t, targets, (kMaxNodes + 31) / 32);
    SHARED(Result, shared_result, 1);
    Result& result = shared_result[0];
    const int request = blockIdx.x;
    if (mutant(device_commit_without_wait)) {
        grid_dependency_release();
        come_late(true, 3);
    }
    const int32_t count = args.node_count[request];
    bool good = (count <= args.N || mutant(accept_large_count_passes)) &&
                (count >= 0 || mutant(accept_negative_count_is_inactive));
    const bool walks_padding = mutant(accept_padding_is_alive) && count > 0;
    const int live = walks_padding ? args.N : good ? static_cast<int>(within(count, 0, args.N)) : 0;
    const bool inactive = (live == 0 && good) && !mutant(accept_inactive_acts);

    const int from_last = kLast - static_cast<int>(threadIdx.x);  // the first words are cleared by the second warp
    if (mutant(accept_barrier_missing_after_clearing)) {
        for (int i = threadIdx.x; i < (kMaxNodes + 31) / 32; i += kThreads) {
            targets[i] = ~0u;  // shared memory may hold anything at entry
        }
        __syncthreads();
        come_late(threadIdx.x >= kWarp);
    }
    for (int i = from_last; i < (kMaxNodes + 31) / 32; i += kThreads) {
        targets[i] = 0;
    }
    for (int i = threadIdx.x; i <= kMaxNodes; i += kThreads) {
        result.path[i] = result.tokens[i] = mutant(accept_padding_is_zero) ? 0 : kNone;
    }
    if (!mutant(accept_barrier_missing_after_clearing)) {
        __syncthreads();
    }
    const Tree tree(memory, args.N);
    const int64_t row = mutant(accept_trees_of_first_request) ? 0 : request;
    come_late(mutant(accept_barrier_missing_before_walk) && threadIdx.x < kWarp);
    for (int node = threadIdx.x; node < args.N; node += kThreads) {
        tree.token[node] = args.node_token[row * args.N + node];
        tree.child[node] = args.next_token[row * args.N + node];
        tree.sibling[node] = args.next_sibling[row * args.N + node];
        tree.predict[node] = args.target_predict[row * args.N + node];
        if (node < live && !(mutant(accept_only_child_links_checked))) {
            good = link_is_good(tree.sibling[node], node, live, targets, mutant) && good;
        }
        if (node < live) {
            good = link_is_good(tree.child[node], node, live, targets, mutant) && good;
        }
    }
    bool malformed = false;
    if (mutant(accept_barrier_missing_before_walk)) {
        malformed = !good;
    } else {
        malformed = __syncthreads_or(!good);
    }
    if (mutant(accept_bad_request_spoils_batch)) {
        for (int other = 0; other < args.B; ++other) {
            malformed = malformed || args.node_count[other] < 0 || args.node_count[other] > args.N;
            for (int node = 0; node < args.node_count[other] && node < args.N; ++node) {
                const int32_t link = args.next_sibling[static_cast<int64_t>(other) * args.N + node];
                malformed = malformed || (link != kNone && (link <= node || link >= args.node_count[other]));
            }
        }
    }
    if (threadIdx.x == kLast) {
        result.accepted = inactive ? kNone : 0;
        result.bonus = kNone;
        result.finished = 0;
        result.written = args.depth_limit + 1;
        result.path[0] = inactive ? kNone : 0;
        if (!inactive && (!malformed || mutant(accept_bad_tree_walked)) && live > 0) {
            const int32_t limit = args.token_limit[mutant(accept_limit_of_first_request) ? 0 : request];
            walk(args, tree, live, limit, result, mutant);
        }
        args.accept_len[request] = inactive && mutant(accept_inactive_is_zero) ? 0 : result.accepted;
        args.bonus_token[request] = result.bonus;
        args.finished[request] = result.finished;
        args.accept_status[request] = malformed && !mutant(accept_status_missing);
    }
    __syncthreads();
    const int pitch = mutant(accept_rows_step_by_slots) ? args.N : args.depth_limit + 1;
    const int last = mutant(accept_tail_unwritten) ? max(result.accepted, 0) + 1 : result.written;
    const int64_t out = static_cast<int64_t>(request) * pitch;
    for (int i = threadIdx.x; i < last; i += kThreads) {
        args.accept_index[out + i] = result.path[i];
        args.out_token[out + i] = result.tokens[i];
    }
}

}  // namespace

int32_t run_tree_accept(const ddtree_tree_accept_args& args, void* stream, Switch mutant) {
    const auto on = mutant(device_accept_on_default_stream) ? nullptr : static_cast<cudaStream_t>(stream);
    return status_of(LAUNCH(tree_accept_kernel, dim3(args.B), dim3(kThreads), Tree::bytes(args.N), on, args, mutant));
}

}  // namespace mutants
