// Bulk copies of sm_90 from shared to global memory: one thread starts them, nobody's registers hold them.
#pragma once

#include <cstdint>

namespace ddtree {
namespace bulk {

// 16-byte aligned, a multiple of 16 bytes. Writes to shared memory are published before (wgmma::publish).
__device__ __forceinline__ void store(void* to, uint32_t from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}

// Waits until the shared memory of this thread's copies may be overwritten.
__device__ __forceinline__ void wait_until_read() {
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n" ::: "memory");
}

}  // namespace bulk
}  // namespace ddtree
