// Atomics and fences. As on the GPU the atomics are relaxed: they order nothing but themselves.
#pragma once

#include <type_traits>

#include "thread.h"

namespace emu {

template <class T, class... Allowed>
constexpr bool one_of = (std::is_same_v<T, Allowed> || ...);

// CUDA has these for exactly these types; uint64_t, an unsigned long here, is not among them.
template <class T>
constexpr bool atomic_integer = one_of<T, int, unsigned, unsigned long long>;

template <class T>
struct identity {
    using type = T;
};
template <class T>
using same = typename identity<T>::type;  // keeps the operand out of template deduction

// Replaces *address by change(*address), and returns what stood there before.
template <class T, class Change>
inline T atomic_update(T* address, Change change) {
    T old, next;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do {
        next = change(old);
    } while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

}  // namespace emu

template <class T>
inline T atomicAdd(T* address, emu::same<T> v) {
    static_assert(emu::atomic_integer<T> || emu::one_of<T, float, double>);
    if constexpr (std::is_integral_v<T>) return __atomic_fetch_add(address, v, __ATOMIC_RELAXED);
    else return emu::atomic_update(address, [v](T old) { return old + v; });
}

template <class T>
inline T atomicMin(T* address, emu::same<T> v) {
    static_assert(emu::atomic_integer<T> || emu::one_of<T, long long>);
    return emu::atomic_update(address, [v](T old) { return v < old ? v : old; });
}

template <class T>
inline T atomicMax(T* address, emu::same<T> v) {
    static_assert(emu::atomic_integer<T> || emu::one_of<T, long long>);
    return emu::atomic_update(address, [v](T old) { return old < v ? v : old; });
}

template <class T>
inline T atomicOr(T* address, emu::same<T> v) {
    static_assert(emu::atomic_integer<T>);
    return __atomic_fetch_or(address, v, __ATOMIC_RELAXED);
}

template <class T>
inline T atomicAnd(T* address, emu::same<T> v) {
    static_assert(emu::atomic_integer<T>);
    return __atomic_fetch_and(address, v, __ATOMIC_RELAXED);
}

template <class T>
inline T atomicExch(T* address, emu::same<T> v) {
    static_assert(emu::atomic_integer<T> || emu::one_of<T, float>);
    T old;
    __atomic_exchange(address, &v, &old, __ATOMIC_RELAXED);
    return old;
}

template <class T>
inline T atomicCAS(T* address, emu::same<T> expected, emu::same<T> desired) {
    static_assert(emu::atomic_integer<T>);
    __atomic_compare_exchange(address, &expected, &desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

inline void __threadfence() { emu::fence(emu::Scope::Device); }
inline void __threadfence_block() { emu::fence(emu::Scope::Block); }
