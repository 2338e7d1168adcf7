// One request of tree_accept: its links checked, its tree walked. And what can go wrong with each.
#pragma once

#include "mutant.h"

namespace mutants {
namespace {

// One request's tree in shared memory, N slots each.
struct Tree {
    int32_t* token;
    int32_t* child;
    int32_t* sibling;
    int32_t* predict;
    int slots;

    static size_t bytes(int nodes) { return 4 * sizeof(int32_t) * nodes; }

    __device__ Tree(int32_t* memory, int nodes) {
        token = memory;
        child = token + nodes;
        sibling = child + nodes;
        predict = sibling + nodes;
        slots = nodes;
    }

    __device__ int inside(int32_t node) const { return static_cast<int>(within(node, 0, slots - 1)); }
};

// A path may be longer than depth_limit here, so that a mutant may overrun its row.
struct Result {
    int32_t path[kMaxNodes + 1];
    int32_t tokens[kMaxNodes + 1];
    int32_t accepted;
    int32_t bonus;
    int32_t finished;
    int32_t written;  // entries of a row that are written
};

__device__ bool link_is_good(int32_t link, int node, int live, uint32_t* targets, Switch mutant) {
    if (link == kNone || mutant(accept_links_unchecked)) {
        return true;
    }
    if (mutant(accept_negative_links_are_none) && link < 0) {
        return true;
    }
    const bool backwards = mutant(accept_self_links_pass) ? link < node : link <= node;
    if (backwards && !mutant(accept_backward_links_pass)) {
        return false;
    }
    if (link >= live && !(mutant(accept_links_to_padding_pass))) {
        return false;
    }
    const int slot = static_cast<int>(within(link, 0, kMaxNodes - 1));
    const uint32_t bit = 1u << (slot % 32);
    return (atomicOr(&targets[slot / 32], bit) & bit) == 0 || mutant(accept_two_parents_pass);
}

__device__ bool is_stop(const ddtree_tree_accept_args& args, int32_t token, Switch mutant) {
    const int count = mutant(accept_first_stop_only) && args.T > 1 ? 1 : args.T;
    for (int i = 0; i < count && !mutant(accept_stop_ignored); ++i) {
        if (args.stop_token[i] == token) {
            return true;
        }
    }
    return false;
}

__device__ int matching_child(const Tree& tree, int node, int live, Switch mutant) {
    const int32_t wanted = tree.predict[mutant(accept_prediction_of_root) ? 0 : node];
    if (wanted == kNone && !mutant(accept_none_matches_none)) {
        return kNone;
    }
    if (mutant(accept_any_node_matches)) {
        for (int other = node + 1; other < live; ++other) {
            if (tree.token[other] == wanted) {
                return other;
            }
        }
        return kNone;
    }
    int child = tree.child[node], found = kNone;
    for (int steps = 0; child != kNone && steps <= tree.slots; ++steps) {
        child = tree.inside(child);
        if (tree.token[child] == wanted) {
            found = child;
            if (!mutant(accept_last_match_wins)) {
                return found;
            }
        }
        child = mutant(accept_first_child_only) ? kNone : tree.sibling[child];
    }
    return found;
}

__device__ void walk(const ddtree_tree_accept_args& args, const Tree& tree, int live, int32_t limit,
                     Result& result, Switch mutant) {
    int node = 0, emitted = 0, depth_limit = args.depth_limit;
    if (mutant(accept_depth_limit_ignored)) {
        depth_limit = kMaxNodes;
    } else if (mutant(accept_depth_limit_one_short)) {
        depth_limit -= 1;
    }
    if (mutant(accept_limit_ignored)) {
        limit = INT32_MAX;
    } else if (mutant(accept_limit_one_over) && limit < INT32_MAX) {
        limit += 1;
    }
    if (mutant(accept_root_is_emitted)) {
        result.tokens[emitted++] = tree.token[0];
    }
    bool finished = limit <= 0 && !mutant(accept_limit_of_zero_emits);
    if (mutant(accept_root_may_stop) && is_stop(args, tree.token[0], mutant)) {
        finished = true;
    }
    bool stopped = finished;
    while (!stopped && result.accepted < depth_limit) {
        int child = matching_child(tree, node, live, mutant);
        if (child == kNone && mutant(accept_goes_on_after_a_miss) && tree.child[node] != kNone) {
            node = tree.inside(tree.child[node]);  // not accepted, but walked over
            continue;
        }
        if (child == kNone || (mutant(accept_stops_at_leaf_parent) && tree.child[child] == kNone)) {
            break;
        }
        node = child;
        const int32_t token = tree.token[node];
        const bool ends = is_stop(args, token, mutant) && !mutant(accept_stop_on_bonus_only);
        if (ends && mutant(accept_stop_token_excluded)) {
            finished = stopped = true;
            break;
        }
        result.accepted += 1;
        result.path[result.accepted] = node;
        result.tokens[emitted++] = token;
        finished = finished || ends || emitted >= limit;
        stopped = finished && !mutant(accept_run_not_cut) && !(mutant(accept_limit_counts_bonus_only));
    }
    int last = node;
    if (mutant(accept_bonus_from_root)) {
        last = 0;
    } else if (mutant(accept_bonus_by_length)) {
        last = tree.inside(result.accepted);
    } else if (mutant(accept_bonus_from_parent)) {
        last = result.accepted > 0 ? result.path[result.accepted - 1] : 0;
    } else if (mutant(accept_bonus_from_first_child)) {
        last = tree.child[node] == kNone ? node : tree.inside(tree.child[node]);
    }
    const int32_t bonus = tree.predict[last];
    const bool late = mutant(accept_bonus_after_the_end);
    if ((!finished || late) && (bonus != kNone || mutant(accept_bonus_of_none_counts))) {
        result.bonus = bonus;
        if (!mutant(accept_bonus_not_in_tokens)) {
            result.tokens[emitted++] = bonus;
        }
        finished = finished || emitted >= limit ||
                   (is_stop(args, bonus, mutant) && !mutant(accept_stop_on_drafts_only));
    }
    if (mutant(accept_finished_without_bonus) && bonus == kNone) {
        finished = true;
    }
    result.finished = finished && !mutant(accept_finished_missing);
    if (mutant(accept_count_includes_root)) {
        result.accepted += 1;
    } else if (mutant(accept_count_includes_bonus) && result.bonus != kNone) {
        result.accepted += 1;
    }
    result.written = args.depth_limit + 1;
    if (mutant(accept_depth_limit_ignored)) {
        result.written = max(result.written, result.accepted + 1);
    }
}

}  // namespace
}  // namespace mutants
