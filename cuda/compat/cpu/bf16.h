// bfloat16 with the toolkit's names, equal to its host header on every value.
#pragma once

#include <cstdint>
#include <cstring>

struct alignas(2) __nv_bfloat16 {
    uint16_t bits;
};

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }

inline float __bfloat162float(__nv_bfloat16 h) {
    const uint32_t bits = static_cast<uint32_t>(h.bits) << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// Round to nearest, ties to even: adding 0x7fff plus the lowest kept bit carries into the upper
// half exactly when the value must go up. Every NaN becomes 0x7fff.
inline __nv_bfloat16 __float2bfloat16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
    return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
