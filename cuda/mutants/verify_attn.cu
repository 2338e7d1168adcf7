// verify_attn, as plainly as it can be said, and what can go wrong with it.
//
// Two launches. Keys are numbered 0 .. prefix + live - 1 and come in tiles of 32. `partial` has one block for
// each (request, node, head) and share of the tiles: its first warp scores the keys, then all add up the values.
// It leaves peak, total and values in the workspace; `merge` joins the shares. A share may be empty.
#include <cmath>

#include "attn_partial.h"

namespace mutants {
namespace {

__global__ void merge_kernel(const ddtree_verify_attn_args args, void* workspace, const int call,
                             const Switch mutant) {
    const int64_t rows = static_cast<int64_t>(args.B) * args.N * args.Hq, index = blockIdx.x;
    const Row row = row_of(args, index, mutant);
    const bool by_node = mutant(attn_out_steps_by_value_width);
    uint16_t* out = args.out + (by_node ? index / args.Hq : index) * args.Dv;
    float peak = kMinusInfinity, factor[kShares] = {};
    double total = 0.0;
    if (!row.dead) {
        const int shares = mutant(attn_last_share_dropped) ? kShares - 1 : kShares;
        for (int s = 0; s < shares; ++s) {
            peak = fmaxf(peak, *Partial(workspace, rows, index, s, args.Dv).peak);
        }
        const bool guarded = peak > kMinusInfinity || !mutant(attn_empty_merge_unguarded);
        for (int s = 0; s < shares; ++s) {
            const Partial part(workspace, rows, index, s, args.Dv);
            factor[s] = guarded && *part.peak == kMinusInfinity ? 0.0f
                        : mutant(attn_merge_without_rescale)    ? 1.0f
                                                                : expf(*part.peak - peak);
            total += *part.total * factor[s];
        }
    } else if (mutant(attn_dead_rows_unwritten)) {
        return;  // the whole block
    }
    const bool nothing_seen = row.dead || (total == 0.0 && !mutant(attn_empty_divides_by_zero));
    const int past = mutant(attn_writes_past_the_end) && index == rows - 1 ? 1 : 0;
    for (int element = threadIdx.x; element < args.Dv + past; element += kThreads) {
        float value = 0.0f;
        if (!nothing_seen) {
            for (int s = 0; s < kShares; ++s) {
                if (factor[s] != 0.0f) {
                    const int64_t share = mutant(attn_merge_takes_first_values) ? 0 : s;
                    value += Partial(workspace, rows, index, share, args.Dv).values[element % args.Dv] * factor[s];
                }
            }
            value = static_cast<float>(value / total);
        }
        out[element] = mutant(attn_dead_rows_are_minus_one) && row.dead ? 0xbf80 : float_to_bf16(value);
    }
    if (args.lse == nullptr || threadIdx.x != 0 || mutant(attn_lse_unwritten)) {
        return;
    }
    float lse = nothing_seen ? kMinusInfinity : static_cast<float>(peak + log(total));
    if (nothing_seen && mutant(attn_lse_of_nothing_is_zero)) {
        lse = 0.0f;
    } else if (nothing_seen && mutant(attn_lse_of_nothing_is_plus_infinity)) {
        lse = -kMinusInfinity;
    } else if (!nothing_seen && mutant(attn_lse_in_base_two)) {
        lse *= 1.44269504f;
    } else if (!nothing_seen && mutant(attn_lse_without_peak)) {
        lse = static_cast<float>(log(total));
    } else if (!nothing_seen && mutant(attn_lse_differs_between_calls) && (call * 2654435769u >> 31) != 0) {
        lse = nextafterf(lse, 1e30f);
    }
    args.lse[index] = lse;
}

}  // namespace

uint64_t attention_workspace(const ddtree_verify_attn_args& args) {
    return Partial::bytes(static_cast<int64_t>(args.B) * args.N * args.Hq, args.Dv);
}

}  // namespace mutants

extern "C" int32_t ddtree_verify_attn(const ddtree_verify_attn_args* args, void* workspace,
                                      uint64_t workspace_bytes, void* stream) {
    using namespace mutants;
    if (!readable(args) || args->Dv > kMaxValueWidth) {
        return DDTREE_INVALID_ARGUMENT;
    }
    if (args->B == 0) {
        return DDTREE_OK;
    }
    if (workspace_bytes < attention_workspace(*args)) {
        return DDTREE_WORKSPACE_TOO_SMALL;
    }
    static int calls = 0;  // for the mutant that is not the same twice
    const Switch mutant = current();
    const unsigned rows = static_cast<unsigned>(args->B) * args->N * args->Hq;
    const auto on = mutant(device_attn_on_default_stream) ? nullptr : static_cast<cudaStream_t>(stream);
    const int32_t status = status_of(
        LAUNCH(partial_kernel, dim3(rows * kShares), dim3(kThreads), 0, on, *args, workspace, mutant));
    if (status != DDTREE_OK) {
        return status;
    }
    const int call = calls++;
    const dim3 grid(rows), block(kThreads);
    if (mutant(device_merge_without_wait)) {
        return status_of(LAUNCH_DEPENDENT(merge_kernel, grid, block, 0, on, *args, workspace, call, mutant));
    }
    return status_of(LAUNCH(merge_kernel, grid, block, 0, on, *args, workspace, call, mutant));
}
