// Runs the planted greedy step through the C ABI on the emulator, under several thread orders, with no
// Python in the process: the simplest thing to put under a sanitizer or a debugger.
//
// Exit status 0: every call succeeded, all orders gave the same bytes, and the root, which sees only
// itself, has its own value row as output.
#include <cstdio>
#include <cstring>
#include <vector>

#include "ddtree.h"

extern "C" int emu_configure(const char* order, uint64_t seed, int fill, int workers);

namespace {

constexpr int B = 3, L = 4, K = 3, N = 12, W = 1, A = L + 1;  // the last request is inactive
constexpr int Hq = 4, D = 32, Dv = 16, S = 3, M = 5, G = B * M, V = 20;
constexpr int64_t kRow = D;

struct Step {
    std::vector<float> topk_logprob = std::vector<float>(B * L * K);
    std::vector<int32_t> topk_token = std::vector<int32_t>(B * L * K);
    int32_t root_token[B] = {5, 6, -1}, prefix_len[B] = {0, 2, 1}, token_limit[B] = {100, 2, 9};
    int32_t stop_token[1] = {17}, block_table[B * M];
    std::vector<uint16_t> pool = std::vector<uint16_t>(G * S * kRow, 0x3f80);
    std::vector<uint16_t> head = std::vector<uint16_t>(V * Hq * Dv);
    uint8_t* layer_base[1] = {reinterpret_cast<uint8_t*>(pool.data())};
    float head_bias[V] = {};
    int32_t head_token[V];

    // Outputs, in one block so that two runs compare as bytes.
    struct Outputs {
        int32_t node_token[B * N], node_parent[B * N], node_depth[B * N], position[B * N], next_token[B * N],
            next_sibling[B * N], node_count[B], tree_status[B], target_predict[B * N], accept_index[B * A],
            accept_len[B], bonus_token[B], out_token[B * A], finished[B], accept_status[B], new_len[B];
        uint32_t tree_mask[B * N * W];
        uint16_t q[B * N * Hq * D], out[B * N * Hq * Dv];
        float lse[B * N * Hq];
    } o;

    Step() {
        std::memset(&o, 0x5a, sizeof o);
        for (int i = 0; i < B * L * K; ++i) {
            topk_logprob[i] = -0.25f * (i % K) - 0.125f * (i / K % L);
            topk_token[i] = i * 7 % 20;
        }
        for (int i = 0; i < B * M; ++i) block_table[i] = i * 2 % G;  // G is odd: a permutation
        for (size_t i = 0; i < head.size(); ++i) {  // 0.125 .. 0.5 of either sign
            head[i] = static_cast<uint16_t>((i % 3 != 0 ? 0xbe00 : 0x3e00) + i * 37 % 256);
        }
        for (int i = 0; i < V; ++i) head_token[i] = i;
    }

    int32_t run() {
        const ddtree_tree_build_args build = {
            sizeof build, topk_logprob.data(), topk_token.data(), root_token, prefix_len, o.node_token,
            o.node_parent, o.node_depth, o.position, o.next_token, o.next_sibling, o.tree_mask, o.node_count,
            o.tree_status, B, L, K, N, W, N - 1};
        const ddtree_planted_embed_args embed = {sizeof embed, o.node_token, o.position, o.node_count, prefix_len,
                                                 block_table, o.q, layer_base, B, N, Hq, D, kRow, S, M, 1};
        const ddtree_verify_attn_args attn = {
            sizeof attn, o.q, pool.data(), nullptr, pool.data(), block_table, prefix_len, o.node_count,
            o.tree_mask, o.out, o.lse, S * kRow, kRow, 0, 0, 0, 0, S * kRow, kRow, 0, B, N, W, Hq, 1, D, 0, Dv, G,
            S, M, 0.2f};
        const ddtree_planted_head_args predict = {sizeof predict, o.out, o.node_count, head.data(), head_bias,
                                                  head_token, o.target_predict, B, N, V, Hq * Dv};
        const ddtree_tree_accept_args accept = {
            sizeof accept, o.node_token, o.next_token, o.next_sibling, o.target_predict, o.node_count, stop_token,
            token_limit, o.accept_index, o.accept_len, o.bonus_token, o.out_token, o.finished, o.accept_status,
            B, N, 1, L};
        const ddtree_kv_commit_args commit = {sizeof commit, layer_base, block_table, prefix_len, o.accept_index,
                                              o.accept_len, o.new_len, 2 * S * kRow, 2 * kRow, 2 * kRow, B, A, M, S,
                                              1, 0};
        const ddtree_greedy_step_args step = {sizeof step, &build, &attn, &accept, &commit, ddtree_planted_embed,
                                              &embed, ddtree_planted_head, &predict};
        return ddtree_greedy_step(&step, nullptr, 0, nullptr);
    }
};

bool fail(const char* order, const char* what) {
    std::fprintf(stderr, "%s: %s\n", order, what);
    return false;
}

bool check(const char* order, uint64_t seed, int fill, int workers, const Step& expected) {
    Step step;
    if (emu_configure(order, seed, fill, workers) != 0) return fail(order, "emu_configure");
    if (step.run() != DDTREE_OK) return fail(order, "the step failed");
    if (step.o.node_count[0] != N || step.o.node_count[2] != 0) return fail(order, "node_count");
    const uint16_t* root_row = step.pool.data() + step.block_table[0] * S * kRow;  // prefix 0: slot 0
    for (int h = 0; h < Hq; ++h) {
        if (std::memcmp(step.o.out + h * Dv, root_row, Dv * sizeof(uint16_t)) != 0)
            return fail(order, "the root's output is not its own value row");
    }
    if (std::memcmp(&step.o, &expected.o, sizeof step.o) != 0 || step.pool != expected.pool)
        return fail(order, "other bytes than in forward order");
    return true;
}

}  // namespace

int main() {
    Step forward;
    bool good = emu_configure("forward", 0, 0, 1) == 0 && forward.run() == DDTREE_OK;
    good = good && check("forward", 0, 0xff, 2, forward) && check("reverse", 0, 0, 1, forward);
    for (uint64_t seed = 1; seed <= 3; ++seed) good = good && check("random", seed, 0xff, 2, forward);
    std::printf("%s\n", good ? "ok" : "FAILED");
    return good ? 0 : 1;
}
