#include "compat/cpu/bf16.h"

#include "bf16.h"

unsigned short emulator_from_float(float f) { return __bfloat16_as_ushort(__float2bfloat16(f)); }
float emulator_to_float(unsigned short bits) { return __bfloat162float(__ushort_as_bfloat16(bits)); }
