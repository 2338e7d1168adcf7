// The parts of the test driver (driver.cpp), and the emulator's C interface.
#pragma once

#include <cstdint>

extern "C" int emu_configure(const char* order, uint64_t seed, int fill, int workers);
extern "C" const char* emu_last_report(void);
extern "C" void emu_clear_report(void);

int zoo_verdict(int number);           // zoo.cu
int zoo_run(int number, int workers);  // zoo.cu
int check(const char* name);           // checks/check.cpp
int semantics();                       // semantics.cu
