// kv_commit, as plainly as it can be said, and what can go wrong with it.
//
// One block per request and layer. A thread owns bytes of the rows, so only the order of its own moves
// matters: in rising order no row is overwritten before it is read.
#include "mutant.h"

namespace mutants {
namespace {

// Byte offset of a slot of one request, within a layer.
__device__ int64_t offset_of(const ddtree_kv_commit_args& args, int request, int32_t slot, Switch mutant) {
    const int64_t owner = mutant(commit_pages_of_first_request) ? 0 : request;
    int page = slot / args.S, rest = slot % args.S;
    if (mutant(commit_page_by_shift)) {
        int shift = 0;
        while (2 << shift <= args.S) {
            ++shift;
        }
        page = slot >> shift;
        rest = slot & ((1 << shift) - 1);
    }
    const int64_t entry = within(page, 0, args.M - 1);
    int64_t listed = mutant(commit_pages_in_order) ? entry : args.block_table[owner * args.M + entry];
    if (!mutant(nothing)) {  // a wrong page is another page, not foreign memory
        listed = within(listed, 0, static_cast<int64_t>(args.B) * args.M - 1);
    }
    const int64_t offset = listed * args.page_bytes + rest * args.slot_bytes;
    if (mutant(commit_offset_in_32_bits)) {
        return static_cast<int32_t>(static_cast<uint32_t>(offset));
    }
    if (mutant(commit_offset_in_unsigned_32_bits)) {
        return static_cast<uint32_t>(offset);
    }
    return mutant(commit_offset_in_12_bits) ? offset & 0xfff : offset;
}

// Where move i takes its row from and puts it.
struct Move {
    int64_t from;
    int64_t to;
};

__device__ Move move_of(const ddtree_kv_commit_args& args, int request, int32_t prefix, const int32_t* path,
                        int i, Switch mutant) {
    int32_t source = prefix + path[i], target = prefix + i;
    if (mutant(commit_path_taken_as_dense)) {
        source = prefix + i;
    } else if (mutant(commit_target_one_early)) {
        target = prefix + i - 1;
    } else if (mutant(commit_target_one_late)) {
        target = prefix + i + 1;
    } else if (mutant(commit_source_one_late)) {
        source += 1;
    } else if (mutant(commit_prefix_ignored)) {
        source -= prefix;
        target -= prefix;
    }
    Move move = {offset_of(args, request, source, mutant), offset_of(args, request, target, mutant)};
    if (mutant(commit_target_in_page_of_source) && source / args.S != target / args.S) {
        move.to = offset_of(args, request, source / args.S * args.S + target % args.S, mutant);
    }
    return move;
}

__global__ void kv_commit_kernel(const ddtree_kv_commit_args args, const Switch mutant) {
    const int request = blockIdx.x / args.Y;
    const int layer = mutant(commit_first_layer_only) ? 0 : blockIdx.x % args.Y;
    const int32_t prefix = args.prefix_len[mutant(commit_prefix_of_first_request) ? 0 : request];
    // A count that nobody wrote yet stays inside the path.
    int32_t accepted = static_cast<int32_t>(within(args.accept_len[request], kNone, args.A - 1));
    come_late(mutant(commit_bytes_change_hands) && threadIdx.x >= kWarp);
    if (threadIdx.x == 0 && blockIdx.x % args.Y == 0) {
        int32_t length = prefix + accepted + 1;
        if (mutant(commit_length_without_root)) {
            length -= 1;
        } else if (mutant(commit_length_counts_bonus)) {
            length += 1;
        } else if (mutant(commit_inactive_grows)) {
            length = prefix + max(accepted, 0) + 1;
        } else if (mutant(commit_inactive_length_is_zero) && accepted < 0) {
            length = 0;
        }
        if (!mutant(commit_length_unwritten)) {
            args.new_len[request] = length;
        }
    }
    const int32_t* path = args.accept_index + static_cast<int64_t>(request) * args.A;
    int64_t width = args.row_bytes;
    if (mutant(commit_rows_rounded_up)) {
        width = (width + 15) / 16 * 16;
    } else if (mutant(commit_rows_rounded_down)) {
        width = width / 16 * 16;
    } else if (mutant(commit_half_rows)) {
        width = width / 2;
    }
    uint8_t* base = args.layer_base[layer];
    if (accepted < 0) {
        if (mutant(commit_inactive_acts) && request > 0 && threadIdx.x == 0) {
            base[offset_of(args, request - 1, args.prefix_len[request - 1], mutant)] ^= 1;
        }
        return;  // the whole block
    }
    if (mutant(commit_skips_last_move)) {
        accepted -= 1;
    } else if (mutant(commit_eight_moves_at_most)) {
        accepted = min(accepted, 8);
    } else if (mutant(commit_last_layer_missed) && args.Y > 1 && layer == args.Y - 1) {
        accepted = 0;
    } else if (mutant(commit_layers_past_sixty) && layer >= 60) {
        accepted = 0;
    }
    if (mutant(commit_root_cleared) && accepted > 0) {
        for (int64_t column = threadIdx.x; column < width; column += kThreads) {
            base[offset_of(args, request, prefix, mutant) + column] = 0;
        }
    }
    for (int64_t column = threadIdx.x; column < width; column += kThreads) {
        for (int i = 1; i <= accepted; ++i) {
            const int which = mutant(commit_moves_in_falling_order) ? accepted + 1 - i : i;
            const Move move = move_of(args, request, prefix, path, which, mutant);
            // Without a barrier between moves, bytes must stay with their thread.
            const int64_t at = mutant(commit_bytes_change_hands) ? (column + i) % width : column;
            const uint8_t left = base[move.to + at];
            base[move.to + at] = base[move.from + at];
            if (mutant(commit_rows_swapped)) {
                base[move.from + at] = left;
            } else if (mutant(commit_source_cleared) && move.from != move.to) {
                base[move.from + at] = 0;
            }
        }
    }
    if (mutant(commit_tail_cleared)) {
        for (int64_t column = threadIdx.x; column < width; column += kThreads) {
            base[offset_of(args, request, prefix + accepted + 1, mutant) + column] = 0;
        }
    } else if (mutant(commit_whole_page_moves) && accepted > 0) {
        const Move move = move_of(args, request, prefix, path, accepted, mutant);
        const int64_t from = move.from / args.page_bytes * args.page_bytes;
        const int64_t to = move.to / args.page_bytes * args.page_bytes;
        for (int64_t byte = threadIdx.x; byte < args.S * args.slot_bytes; byte += kThreads) {
            base[to + byte] = base[from + byte];
        }
    }
}

}  // namespace

int32_t run_kv_commit(const ddtree_kv_commit_args& args, void* stream, Switch mutant) {
    const dim3 grid(static_cast<unsigned>(args.B) * args.Y);
    const auto on = mutant(device_commit_on_default_stream) ? nullptr : static_cast<cudaStream_t>(stream);
    if (mutant(device_commit_without_wait)) {
        return status_of(LAUNCH_DEPENDENT(kv_commit_kernel, grid, dim3(kThreads), 0, on, args, mutant));
    }
    return status_of(LAUNCH(kv_commit_kernel, grid, dim3(kThreads), 0, on, args, mutant));
}

}  // namespace mutants

extern "C" int32_t ddtree_kv_commit(const ddtree_kv_commit_args* args, void*, uint64_t, void* stream) {
    using namespace mutants;
    if (!readable(args)) {
        return DDTREE_INVALID_ARGUMENT;
    }
    return args->B == 0 ? DDTREE_OK : run_kv_commit(*args, stream, current());
}
