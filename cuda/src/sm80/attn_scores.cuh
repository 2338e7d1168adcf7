// Scores of one unit: query times keys, in halves or quarters of the depth, summed up over warps.
#pragma once

#include "attn_load.cuh"
#include "attn_tile.cuh"
#include "ptx.cuh"

namespace ddtree {
namespace mma {

// The query planes that a warp keeps in registers: its steps of them, its 32 rows.
template <class Tile>
struct HeldQuery {
    uint32_t operand[Tile::kHeldSteps][2][4];

    __device__ __forceinline__ void load(uint32_t planes, const Role<Tile>& role) {
#pragma unroll
        for (int step = 0; step < Tile::kHeldSteps; ++step) {
            const int chunk = (role.depth * Tile::kPlaneSteps + step % Tile::kPlaneSteps) * 2;
            const uint32_t row = planes + step / Tile::kPlaneSteps * Tile::kQueryPlaneBytes +
                                 role.kept_row / 32 * 32 * kPlaneRow + operand_offset(role.lane, chunk);
            ptx::load_matrices(operand[step][0], row);
            ptx::load_matrices(operand[step][1], row + 16 * kPlaneRow);
        }
    }
};

// Step `step` of a warp: held planes come first, their query needs no load.
template <class Tile>
__device__ constexpr int plane_of_step(int step) {
    return (Tile::kQueryPlanes + step / Tile::kPlaneSteps) % kPlanes;
}

// score[row block][key block] of the warp's columns. Between the steps goes one copy of the next unit.
template <class Tile>
__device__ __forceinline__ void partial_scores(float (&score)[2][Tile::kKeyBlocks][4], uint32_t query,
                                               uint32_t keys, const HeldQuery<Tile>& held,
                                               const Role<Tile>& role, const Copier<Tile>& next) {
    constexpr int kPairs = Tile::kKeyBlocks / 2;
    uint32_t query_row[Tile::kPlaneSteps];
    uint32_t key_row[Tile::kPlaneSteps];
#pragma unroll
    for (int i = 0; i < Tile::kPlaneSteps; ++i) {
        const int chunk = (role.depth * Tile::kPlaneSteps + i) * 2;
        query_row[i] = query + role.kept_row / 32 * 32 * kPlaneRow + operand_offset(role.lane, chunk);
        key_row[i] = keys + role.key_warp * (Tile::kKeys / Tile::kKeyWarps) * kPlaneRow +
                     key_operand_offset(role.lane, chunk);
    }
#pragma unroll
    for (int row_block = 0; row_block < 2; ++row_block) {
#pragma unroll
        for (int block = 0; block < Tile::kKeyBlocks; ++block) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                score[row_block][block][i] = 0.0f;
            }
        }
    }
    uint32_t a[2][2][4];       // [step % 2][row block]
    uint32_t b[2][kPairs][4];  // [step % 2][pair of key blocks]
    const auto load = [&](int step) {
        const int plane = plane_of_step<Tile>(step);
        const int variant = step % Tile::kPlaneSteps;
        if (step >= Tile::kHeldSteps) {
            const uint32_t row = query_row[variant] + plane * Tile::kQueryPlaneBytes;
            ptx::load_matrices(a[step % 2][0], row);
            ptx::load_matrices(a[step % 2][1], row + 16 * kPlaneRow);
        } else {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                a[step % 2][i / 4][i % 4] = held.operand[step < Tile::kHeldSteps ? step : 0][i / 4][i % 4];
            }
        }
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) {
            ptx::load_matrices(b[step % 2][pair],
                               key_row[variant] + plane * Tile::kKeyPlaneBytes + pair * 16 * kPlaneRow);
        }
    };
    load(0);
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
        if (step + 1 < Tile::kSteps) {
            load(step + 1);
        }
        if (!Tile::kPipelined) {
            next.copy(step);
        }
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) {
#pragma unroll
            for (int row_block = 0; row_block < 2; ++row_block) {
                ptx::multiply_add(score[row_block][2 * pair], a[step % 2][row_block], b[step % 2][pair][0],
                                  b[step % 2][pair][1]);
                ptx::multiply_add(score[row_block][2 * pair + 1], a[step % 2][row_block], b[step % 2][pair][2],
                                  b[step % 2][pair][3]);
            }
        }
    }
}

// The depth warps of a group swap partial sums: block (r, k) goes to the warp with depth (r + 2 k) mod
// kDepthWarps, which keeps the total in kept[..], in rising order of k. Between sending and receiving stands
// a barrier of the group.
template <class Tile>
__device__ __forceinline__ uint32_t exchange_box(int lane, int warp, int sender, int index) {
    return Tile::kExchange + ((warp * (Tile::kDepthWarps - 1) + sender) * Tile::kKept + index) * 512 + lane * 16;
}

template <class Tile>
__device__ __forceinline__ void send_scores(float (&kept)[Tile::kKept][4],
                                            const float (&score)[2][Tile::kKeyBlocks][4], uint32_t memory,
                                            const Role<Tile>& role) {
#pragma unroll
    for (int owner = 0; owner < Tile::kDepthWarps; ++owner) {
        const bool own = owner == role.depth;
        const int sender = role.depth - (role.depth > owner ? 1 : 0);
        const uint32_t to =
            memory + exchange_box<Tile>(role.lane, role.group * Tile::kDepthWarps + owner, sender, 0);
#pragma unroll
        for (int index = 0; index < Tile::kKept; ++index) {
            const float(&mine)[4] = score[owner % 2][index * (Tile::kDepthWarps / 2) + owner / 2];
            ptx::store_16_if(!own, to + index * 512, mine);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                kept[index][i] = own || owner == 0 ? mine[i] : kept[index][i];
            }
        }
    }
}

template <class Tile>
__device__ __forceinline__ void receive_scores(float (&kept)[Tile::kKept][4], const unsigned char* memory,
                                               const Role<Tile>& role) {
#pragma unroll
    for (int sender = 0; sender < Tile::kDepthWarps - 1; ++sender) {
#pragma unroll
        for (int index = 0; index < Tile::kKept; ++index) {
            const float4 other = *reinterpret_cast<const float4*>(
                memory + exchange_box<Tile>(role.lane, role.warp, sender, index));
            kept[index][0] += other.x;
            kept[index][1] += other.y;
            kept[index][2] += other.z;
            kept[index][3] += other.w;
        }
    }
}

template <class Tile>
__device__ __forceinline__ void group_barrier(const Role<Tile>& role) {
    ptx::barrier(1 + role.group, 32 * Tile::kDepthWarps);
}

}  // namespace mma
}  // namespace ddtree
