// A check: `CHECK(name) { .. }` in a file of this folder, run by `driver check name`.
#pragma once

#include <fstream>
#include <string>

#include "../driver.h"
#include "compat/compat.h"

constexpr unsigned kAll = 0xffffffffu;

void expect(bool condition, const char* file, int line, const char* text);
#define EXPECT(condition) expect(condition, __FILE__, __LINE__, #condition)

bool enlist(const char* name, void (*run)());
#define CHECK(name)                                          \
    static void name();                                      \
    static const bool enlisted_##name = enlist(#name, name); \
    static void name()

inline bool report_says(const char* words) { return std::string(emu_last_report()).find(words) != std::string::npos; }

inline long mapped_pages() {
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages;
}

inline __global__ void nothing() {}

inline __global__ void shared_by_all(int* out) {
    SHARED(int, a, 64);
    a[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = a[63 - threadIdx.x];
}
