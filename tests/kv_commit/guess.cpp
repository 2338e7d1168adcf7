// kv_commit with a prefix length that its guess finds before the wait: stale, or anything.
#include "compat/compat.h"

namespace {
int32_t guess = 0;
int32_t read_early(const int32_t*) {
    return guess;
}
template <class T>
T read_early(const T* piece) {  // of a row: the right one
    return *piece;
}
}  // namespace

#define __ldcg(address) read_early(address)
#include "kv_commit.cu"

extern "C" void set_guess(int32_t value) {
    guess = value;
}
