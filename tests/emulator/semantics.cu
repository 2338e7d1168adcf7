// What each warp operation and intrinsic computes, lane by lane. The same source runs on a GPU;
// semantics.golden is the output of one, and the emulator must print the same.
//
//   nvcc -std=c++17 -arch=native -I cuda tests/emulator/semantics.cu -o semantics && ./semantics
#include <cstdio>
#include <vector>

#include "compat/compat.h"

constexpr unsigned kAll = 0xffffffffu;
constexpr int kRows = 96;

// Collects one row of 32 values per operation.
struct Sheet {
    unsigned* rows;
    int next;
    __device__ void add(unsigned value) {
        rows[next * 32 + threadIdx.x] = value;
        ++next;
    }
    __device__ void add64(unsigned long long value) {
        add(static_cast<unsigned>(value));
        add(static_cast<unsigned>(value >> 32));
    }
};

// The odd lanes and the even lanes do this apart, each under their own mask.
__device__ void under_mask(Sheet& sheet, unsigned mask, int lane) {
    sheet.add(__shfl_sync(mask, lane * 3, lane % 2 + 4));
    sheet.add(__ballot_sync(mask, lane > 9));
    sheet.add(__reduce_add_sync(mask, 1u << (lane / 2)));
    sheet.add(__match_any_sync(mask, lane / 8));
}

__global__ void evaluate(unsigned* rows, int* counts, unsigned* words, float* floats) {
    Sheet sheet = {rows, 0};
    const int lane = threadIdx.x;
    const int mixed = (lane * 37 + 11) % 32 - 13;  // both signs

    // Shuffles: the source wraps in its segment; up, down and xor stop at the segment's end.
    for (int width = 1; width <= 32; width *= 2) {
        sheet.add(__shfl_sync(kAll, lane + 100, lane * 5 + 3, width));
        sheet.add(__shfl_up_sync(kAll, lane + 100, 3, width));
        sheet.add(__shfl_down_sync(kAll, lane + 100, 3, width));
        sheet.add(__shfl_xor_sync(kAll, lane + 100, 5, width));
        sheet.add(__shfl_xor_sync(kAll, lane + 100, 16, width));
    }
    sheet.add(__shfl_sync(kAll, lane, -1));
    sheet.add(__shfl_up_sync(kAll, lane, 32));
    sheet.add(__shfl_down_sync(kAll, lane, 40));
    sheet.add(__shfl_xor_sync(kAll, lane, 35));
    sheet.add(__float_as_uint(__shfl_xor_sync(kAll, lane * 0.5f, 1)));
    sheet.add64(__shfl_down_sync(kAll, lane * 0x100000001ull, 1));
    sheet.add64(__double_as_longlong(__shfl_xor_sync(kAll, lane / 3.0, 7)));

    // Votes, matches, reductions.
    sheet.add(__ballot_sync(kAll, mixed > 0));
    sheet.add(__ballot_sync(kAll, 0));
    sheet.add(__any_sync(kAll, lane == 7));
    sheet.add(__any_sync(kAll, 0));
    sheet.add(__all_sync(kAll, lane < 32));
    sheet.add(__all_sync(kAll, lane != 7));
    sheet.add(__match_any_sync(kAll, lane % 5));
    sheet.add(__match_any_sync(kAll, (lane % 3) * 0x100000000ll));
    sheet.add(__reduce_add_sync(kAll, mixed));
    sheet.add(__reduce_min_sync(kAll, mixed));
    sheet.add(__reduce_max_sync(kAll, mixed));
    sheet.add(__reduce_min_sync(kAll, static_cast<unsigned>(mixed)));
    sheet.add(__reduce_max_sync(kAll, static_cast<unsigned>(mixed)));
    sheet.add(__reduce_and_sync(kAll, ~(1u << (lane % 9))));
    sheet.add(__reduce_or_sync(kAll, 1u << (lane % 9)));
    under_mask(sheet, lane % 2 ? 0xaaaaaaaau : 0x55555555u, lane);

    // Barriers that count.
    sheet.add(__syncthreads_count(lane % 3 == 0));
    sheet.add(__syncthreads_and(lane < 32) != 0);
    sheet.add(__syncthreads_and(lane < 31) != 0);
    sheet.add(__syncthreads_or(lane == 3) != 0);
    sheet.add(__syncthreads_or(0) != 0);

    // Bits.
    const unsigned word = lane ? 0x9e3779b9u * lane : 0;
    sheet.add(__popc(word));
    sheet.add(__popcll(word * 0x100000001ull));
    sheet.add(__ffs(static_cast<int>(word << (lane % 8))));
    sheet.add(__clz(static_cast<int>(word >> lane)));
    sheet.add(__brev(word));

    // Numbers: exact operations, rounding to bf16, minimum and maximum with a NaN.
    const float x = __uint_as_float(0x3f800000u + 0x9e3779u * lane), nan = __uint_as_float(0x7fc00000u);
    sheet.add(__float_as_uint(__fmaf_rn(x, x, -1.0f)));
    sheet.add(__float_as_uint(__fadd_rn(__fmul_rn(x, x), -1.0f)));
    sheet.add64(__double_as_longlong(__dadd_rn(x, 1e-9)));
    sheet.add(__bfloat16_as_ushort(__float2bfloat16(x)));
    sheet.add(__bfloat16_as_ushort(__float2bfloat16(lane % 2 ? nan : __uint_as_float(0x7f7fffffu - lane))));
    sheet.add(__float_as_uint(__bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(word)))));
    sheet.add(__float_as_uint(max(x, nan)));
    sheet.add(__float_as_uint(fminf(nan, x)));
    sheet.add(min(lane, 7) + max(lane, 20));

    // Atomics: the final words, and for those with one writer what they return.
    atomicAdd(&words[0], word);
    atomicMin(reinterpret_cast<int*>(&words[1]), mixed);
    atomicMax(reinterpret_cast<int*>(&words[2]), mixed);
    atomicOr(&words[3], 1u << lane);
    atomicAnd(&words[4], ~(1u << lane));
    atomicAdd(&floats[0], static_cast<float>(lane));
    __syncthreads();
    if (lane == 0) {
        sheet.add(atomicExch(&words[5], 17u));
        sheet.add(atomicCAS(&words[5], 17u, 18u));
        sheet.add(atomicCAS(&words[5], 17u, 19u));
        for (int i = 0; i < 6; ++i) sheet.add(words[i]);
        sheet.add(__float_as_uint(floats[0]));
        *counts = sheet.next;
    }
}

__global__ void empty() {}

// Which launches are refused. The code differs: 9 as documented, 1 from CUDA 13.0 on an H200.
static void print_limits() {
    const struct {
        dim3 grid, block;
        size_t smem;
    } launches[] = {
        {1, 1024, 0},           {1, dim3(16, 1, 64), 0}, {1, 32, 48 * 1024 + 1},    {1, 32, 227 * 1024},
        {1, 32, 227 * 1024 + 1}, {1, 1025, 0},           {1, 0, 0},                 {1, dim3(1, 1, 65), 0},
        {1, dim3(64, 32), 0},   {0, 1, 0},               {dim3(1, 65536), 1, 0},    {dim3(1, 1, 65536), 1, 0},
        {0x80000000u, 1, 0},    {1, 1, 1 << 30},         {dim3(1, 0), 0, 1 << 30},  {1, 32, 0},
    };
    for (const auto& l : launches) printf("%d ", LAUNCH(empty, l.grid, l.block, l.smem, nullptr) != cudaSuccess);
    printf("\n");
}

#ifdef __CUDACC__
template <class T>
static T* filled(size_t n, int byte) {
    T* memory = nullptr;
    cudaMallocManaged(&memory, n * sizeof(T));
    cudaMemset(memory, byte, n * sizeof(T));
    return memory;
}
static cudaError_t finish() { return cudaDeviceSynchronize(); }
#else
template <class T>
static T* filled(size_t n, int byte) {
    static std::vector<std::vector<T>> kept;
    kept.emplace_back(n);
    memset(kept.back().data(), byte, n * sizeof(T));
    return kept.back().data();
}
static cudaError_t finish() { return cudaSuccess; }
#endif

int semantics() {
    unsigned* rows = filled<unsigned>(kRows * 32, 0);
    int* count = filled<int>(1, 0);
    unsigned* words = filled<unsigned>(6, 0);
    float* floats = filled<float>(1, 0);
    cudaError_t error = finish();
    words[4] = kAll;
    if (error == cudaSuccess) error = LAUNCH(evaluate, 1, 32, 0, nullptr, rows, count, words, floats);
    if (error == cudaSuccess) error = finish();
    if (error != cudaSuccess) {
        printf("error %d\n", static_cast<int>(error));
        return 1;
    }
    for (int row = 0; row < *count; ++row) {
        for (int lane = 0; lane < 32; ++lane) printf("%x%c", rows[row * 32 + lane], lane == 31 ? '\n' : ' ');
    }
    print_limits();
    return 0;
}

#ifdef __CUDACC__
int main() { return semantics(); }
#endif
