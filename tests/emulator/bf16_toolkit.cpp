// Compares the emulator's bfloat16 with the CUDA toolkit's host header: all 65,536 values one way,
// every STRIDE-th of the 2^32 floats the other way.
#include <cuda_bf16.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bf16.h"

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

int main(int, char** words) {
    unsigned long long different = 0, compared = 0;
    for (unsigned bits = 0; bits < 65536; ++bits, ++compared) {
        const unsigned short half = static_cast<unsigned short>(bits);
        different += bits_of(emulator_to_float(half)) != bits_of(__bfloat162float(__ushort_as_bfloat16(half)));
    }
    const unsigned long long stride = strtoull(words[1], nullptr, 10);
    for (unsigned long long bits = 0; bits < 1ull << 32; bits += stride, ++compared) {
        const uint32_t word = static_cast<uint32_t>(bits);
        float f;
        memcpy(&f, &word, sizeof f);
        different += emulator_from_float(f) != __bfloat16_as_ushort(__float2bfloat16(f));
    }
    printf("%llu compared, %llu different\n", compared, different);
    return different != 0;
}
