// Rounding to bf16.
#include "check.h"

CHECK(bf16_rounds_to_nearest_even) {
    const auto round = [](unsigned bits) { return __bfloat16_as_ushort(__float2bfloat16(__uint_as_float(bits))); };
    EXPECT(round(0x3f800000) == 0x3f80);  // 1
    EXPECT(round(0x3f808000) == 0x3f80);  // a tie, to even below
    EXPECT(round(0x3f818000) == 0x3f82);  // a tie, to even above
    EXPECT(round(0x3f808001) == 0x3f81);
    EXPECT(round(0x3f807fff) == 0x3f80);
    EXPECT(round(0x80000000) == 0x8000);
    EXPECT(round(0x00008000) == 0x0000);  // subnormal, a tie
    EXPECT(round(0x00018000) == 0x0002);
    EXPECT(round(0x7f7fffff) == 0x7f80);  // rounds to infinity
    EXPECT(round(0xff800000) == 0xff80);
    EXPECT(round(0x7f800001) == 0x7fff);  // every NaN
    EXPECT(round(0xffc12345) == 0x7fff);
}
