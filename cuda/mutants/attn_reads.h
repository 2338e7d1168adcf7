// What one row of attention reads: its request, its mask, its pages, its heads, one score. And what can go
// wrong with each.
#pragma once

#include <cmath>

#include "mutant.h"

namespace mutants {
namespace {

constexpr int kTile = kWarp;

// Which request's what a row reads. Right: its own.
struct Row {
    int request;
    int node;
    int head;
    int prefix;
    int live;
    bool dead;
};

__device__ Row row_of(const ddtree_verify_attn_args& args, int64_t index, Switch mutant) {
    Row row;
    row.head = static_cast<int>(index % args.Hq);
    row.node = static_cast<int>(index / args.Hq % args.N);
    row.request = static_cast<int>(index / args.Hq / args.N);
    const int own = row.request;
    // A count that nobody wrote yet stays inside the mask.
    const int32_t count = args.node_count[mutant(attn_count_of_first_request) ? 0 : own];
    row.live = static_cast<int>(within(count, 0, args.N));
    row.prefix = args.prefix_len[mutant(attn_prefix_of_first_request) ? 0 : own];
    if (mutant(attn_prefix_one_short) && row.prefix > 0) {
        row.prefix -= 1;
    } else if (mutant(attn_prefix_one_over)) {
        row.prefix += 1;
    } else if (mutant(attn_prefix_ignored)) {
        row.prefix = 0;
    }
    if (mutant(attn_inactive_has_root) && row.live == 0) {
        row.live = 1;
    }
    row.dead = row.node >= row.live;
    if (mutant(attn_dead_rows_computed) && row.live > 0) {
        row.dead = false;
    }
    return row;
}

__device__ bool mask_bit(const ddtree_verify_attn_args& args, const Row& row, int other, Switch mutant) {
    int node = row.node, request = row.request, words = args.W;
    if (mutant(attn_mask_full)) {
        return true;
    }
    if (mutant(attn_mask_causal)) {
        return other <= node;
    }
    if (mutant(attn_mask_self_taken_as_set) && other == node) {
        return true;
    }
    if (mutant(attn_mask_self_taken_as_clear) && other == node) {
        return false;
    }
    if (mutant(attn_loop_ends_at_own_row) && other > node) {
        return false;
    }
    if (mutant(attn_mask_one_word) && other >= 32) {
        return false;
    }
    if (mutant(attn_mask_transposed)) {
        const int swap = node;
        node = other;
        other = swap;
    } else if (mutant(attn_mask_of_first_request)) {
        request = 0;
    } else if (mutant(attn_mask_pitch_of_live)) {
        words = words_of(row.live);
    } else if (mutant(attn_mask_of_next_row)) {
        node = node + 1 < row.live ? node + 1 : node;
    } else if (mutant(attn_mask_bits_reversed)) {
        other = other / 32 * 32 + 31 - other % 32;
    } else if (mutant(attn_mask_bit_off_by_one)) {
        other = other > 0 ? other - 1 : other;
    }
    const uint32_t* bits = args.tree_mask + static_cast<int64_t>(request) * args.N * args.W;
    return (bits[node * words + other / 32] >> (other % 32) & 1u) != 0;
}

__device__ bool sees(const ddtree_verify_attn_args& args, const Row& row, int slot, Switch mutant) {
    if (slot < row.prefix) {
        return true;
    }
    const int other = slot - row.prefix;
    if (mutant(attn_page_rest_joins) && slot < (row.prefix + args.S - 1) / args.S * args.S) {
        return true;
    }
    if (other >= row.live && !(mutant(attn_stray_bits_count) && other < args.N)) {
        return false;
    }
    const int tile_end = slot / kTile * kTile + kTile;
    if (mutant(attn_mask_skipped_below_diagonal) && tile_end <= row.prefix + row.node) {
        return true;
    }
    return mask_bit(args, row, other, mutant);
}

// The slot of the n-th visible tail row, if the path is taken for a dense run: its place among the set bits.
__device__ int dense_slot(const ddtree_verify_attn_args& args, const Row& row, int slot, Switch mutant) {
    int place = 0;
    for (int other = 0; other < slot - row.prefix; ++other) {
        place += mask_bit(args, row, other, mutant);
    }
    return row.prefix + place;
}

// Page and slot in the page of a key. Indices are kept in range, so that a wrong one reads a wrong row of the
// pool and no foreign memory.
struct Place {
    int64_t page;
    int64_t slot;

    __device__ int64_t offset(int64_t page_stride, int64_t slot_stride, Switch mutant) const {
        if (mutant(attn_page_stride_is_slot_stride)) {
            page_stride = slot_stride;
        }
        const int64_t offset = page * page_stride + slot * slot_stride;
        if (mutant(attn_offset_in_32_bits)) {
            return static_cast<int32_t>(static_cast<uint32_t>(offset));
        }
        if (mutant(attn_offset_in_unsigned_32_bits)) {
            return static_cast<uint32_t>(offset);
        }
        return mutant(attn_offset_in_16_bits) ? offset & 0xffff : offset;
    }
};

__device__ Place place_of(const ddtree_verify_attn_args& args, const Row& row, int slot, Switch mutant) {
    const int request = mutant(attn_pages_of_first_request) ? 0 : row.request;
    int page = slot / args.S, rest = slot % args.S;
    if (mutant(attn_page_by_shift)) {
        int shift = 0;
        while (2 << shift <= args.S) {
            ++shift;
        }
        page = slot >> shift;
        rest = static_cast<int>(within(slot & ((1 << shift) - 1), 0, args.S - 1));
    }
    const int64_t entry = within(page, 0, args.M - 1);
    const int64_t pitch = mutant(attn_table_pitch_one_short) ? args.M - 1 : args.M;
    const int64_t listed = mutant(attn_pages_in_order) ? page : args.block_table[request * pitch + entry];
    return {within(listed, 0, args.G - 1), rest};
}

struct Pools {
    const uint16_t* key;
    const uint16_t* rope;
    const uint16_t* value;
};

__device__ Pools pools_of(const ddtree_verify_attn_args& args, int head, Switch mutant) {
    int kv_head = head / (args.Hq / args.Hkv);
    if (mutant(attn_heads_interleaved)) {
        kv_head = head % args.Hkv;
    }
    const int value_head = mutant(attn_value_of_first_head) ? 0 : kv_head;
    const bool by_values = mutant(attn_key_head_by_value_width);
    const int64_t key_stride = by_values ? args.value_head_stride : args.key_head_stride;
    Pools pools;
    pools.key = args.key + kv_head * key_stride;
    pools.rope = args.Dr > 0 ? args.rope + kv_head * args.rope_head_stride : nullptr;
    pools.value = args.value + value_head * args.value_head_stride;
    if (args.Dr > 0 && mutant(attn_rope_from_row_start)) {
        pools.rope = args.key;
    }
    if (args.Dr > 0 && mutant(attn_value_from_rope_part)) {
        pools.value += args.Dr;
    }
    return pools;
}

__device__ float score_of(const ddtree_verify_attn_args& args, const Pools& pools, const uint16_t* q, Place place,
                          Switch mutant) {
    const int latent = args.Dk - args.Dr;
    const uint16_t* key = pools.key + place.offset(args.key_page_stride, args.key_slot_stride, mutant);
    float part[4] = {};
    const int width = mutant(attn_last_key_element_missed) && args.Dr == 0 ? latent - 1 : latent;
    for (int e = 0; e < width; ++e) {
        part[e % 4] += bf16_to_float(q[e]) * bf16_to_float(key[e]);
    }
    if (args.Dr > 0 && !mutant(attn_rope_dropped)) {
        const uint16_t* rope = pools.rope + place.offset(args.rope_page_stride, args.rope_slot_stride, mutant);
        for (int e = 0; e < args.Dr; ++e) {
            part[e % 4] += bf16_to_float(q[latent + e]) * bf16_to_float(rope[e]);
        }
    }
    float scale = args.scale;
    if (mutant(attn_scale_from_key_width)) {
        scale = 1.0f / sqrtf(static_cast<float>(args.Dk));
    } else if (mutant(attn_scale_missing)) {
        scale = 1.0f;
    } else if (mutant(attn_scale_twice)) {
        scale *= args.scale;
    }
    return ((part[0] + part[1]) + (part[2] + part[3])) * scale;
}

}  // namespace
}  // namespace mutants
