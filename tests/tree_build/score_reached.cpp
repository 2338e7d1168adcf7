// score_reached of tree_hard.cuh on scores of the caller's, under the emulator.
#include "tree_hard.cuh"

namespace {

constexpr int kThreads = 512;

__global__ void score_reached_kernel(const double* scores, int count, int wanted, double lowest, double* answer) {
    using namespace ddtree;
    DYN_SMEM(unsigned char, memory);
    SHARED(int32_t, warp_total, 2 * kWarp);
    const Candidates found(memory, count, true);
    const OrderMemory order(memory + ceil_div(Candidates::bytes(count), 16) * 16, count);
    order.clear();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        found.put(i, scores[i], kNone, i, 1);
    }
    __syncthreads();
    const double score = score_reached(order, {warp_total}, found, count, wanted, lowest);
    if (threadIdx.x == 0) {
        *answer = score;
    }
}

}  // namespace

extern "C" double score_reached_of(const double* scores, int count, int wanted, double lowest) {
    using namespace ddtree;
    double answer = 0.0;
    const int bytes = ceil_div(Candidates::bytes(count), 16) * 16 + OrderMemory::bytes(count, kThreads);
    LAUNCH(score_reached_kernel, dim3(1), dim3(kThreads), bytes, nullptr, scores, count, wanted, lowest, &answer);
    return answer;
}
