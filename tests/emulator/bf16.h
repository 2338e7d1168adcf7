// bfloat16 conversions of the emulator's header, away from the toolkit's, which has the same names.
#pragma once

unsigned short emulator_from_float(float f);
float emulator_to_float(unsigned short bits);
