// Scalar intrinsics. expf, exp2f, fmaxf and the like are those of the C library.
//
// Build with -ffp-contract=off: a product and a sum are fused only where __fmaf_rn says so.
#pragma once

#include <cmath>
#include <cstring>

#define __expf(x) expf(x)  // a macro: glibc declares the name itself

template <class To, class From>
inline To compat_bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline unsigned __float_as_uint(float x) { return compat_bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return compat_bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return compat_bit_cast<float>(x); }
inline float __int_as_float(int x) { return compat_bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return compat_bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return compat_bit_cast<double>(x); }

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_ru(float a, float b) {
    const double exact = static_cast<double>(a) * b;
    const float near = static_cast<float>(exact);
    return static_cast<double>(near) < exact ? nextafterf(near, INFINITY) : near;
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }

inline unsigned __brev(unsigned x) {
    x = ((x & 0x55555555u) << 1) | ((x >> 1) & 0x55555555u);
    x = ((x & 0x33333333u) << 2) | ((x >> 2) & 0x33333333u);
    x = ((x & 0x0f0f0f0fu) << 4) | ((x >> 4) & 0x0f0f0f0fu);
    return __builtin_bswap32(x);
}

// CUDA's overloads also take mixed types; here both arguments must have one type, so that a
// silent conversion to unsigned does not pass the CPU build. A NaN loses against a number.
template <class T>
inline T min(T a, T b) { return b < a ? b : a; }
template <class T>
inline T max(T a, T b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
