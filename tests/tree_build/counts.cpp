// The two ways of counting of tree_pairs.cuh and tree_count.cuh on rows of the caller's, under the emulator.
#include "tree_threshold.cuh"

namespace {

using namespace ddtree;

__device__ float cost_of(const Rows& rows) {
    const int lane = threadIdx.x % kWarp;
    return first_costs(lane < rows.depths ? rows.row(lane + 1)[0] : kInfinity);
}

__global__ void pairs_kernel(const Rows rows, float per_unit, int32_t* totals) {
    DYN_SMEM(unsigned char, memory);
    const PairMemory pairs(memory, rows.depths);
    pairs.clear(rows.depths);
    __syncthreads();
    count_ranks(pairs, rows, per_unit);
    __syncthreads();
    add_pairs(pairs, rows, pair_bin(__fmul_ru(cost_of(rows), per_unit)));
    __syncthreads();
    if (threadIdx.x < kPairBins) {
        totals[threadIdx.x] = pairs.totals[threadIdx.x];
    }
}

__global__ void all_kernel(const Rows rows, float per_unit, int budget, int32_t* bin) {
    DYN_SMEM(unsigned char, memory);
    const CountAll count = {{memory, rows.depths}};
    count.memory.clear(rows.depths);
    __syncthreads();
    const int found = count(rows, cost_of(rows), per_unit, budget);
    if (threadIdx.x == 0) {
        *bin = found;
    }
}

}  // namespace

// totals: [32]
extern "C" void count_pairs(const float* logprob, int depths, int candidates, float per_unit, int32_t* totals) {
    const Rows rows = {logprob, nullptr, depths, candidates, candidates};
    const size_t bytes = PairMemory::words(depths) * sizeof(int32_t);
    LAUNCH(pairs_kernel, dim3(1), dim3(512), bytes, nullptr, rows, per_unit, totals);
}

extern "C" int count_all(const float* logprob, int depths, int candidates, float per_unit, int budget, int threads) {
    const Rows rows = {logprob, nullptr, depths, candidates, candidates};
    int32_t bin = 0;
    const size_t bytes = CountMemory::words(depths) * sizeof(int32_t);
    LAUNCH(all_kernel, dim3(1), dim3(threads), bytes, nullptr, rows, per_unit, budget, &bin);
    return bin;
}
