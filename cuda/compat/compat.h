// The one header a kernel source includes for CUDA.
//
// nvcc builds the source for the GPU. Any C++17 compiler builds the same source against the
// emulator, which runs every CUDA thread as a fiber on the CPU (docs/emulator.md).
//
// A C++ compiler cannot read all of CUDA, and bounds need exact allocations, so three things go
// through macros on both sides:
//
//   SHARED(T, name, N)    instead of  __shared__ T name[N]
//   DYN_SMEM(T, name)     instead of  extern __shared__ T name[]
//   LAUNCH(kernel, grid, block, smem_bytes, stream, args...)   instead of the chevrons;
//                         evaluates to the cudaError_t of the launch. A template kernel with a
//                         comma in its arguments stands in parentheses: LAUNCH((kernel<1, 2>), ...)
//   LAUNCH_DEPENDENT(...)  the same; the GPU may begin before the kernel in front of it on the stream ends.
//                         Every thread of such a kernel calls grid_dependency_wait() before it writes global
//                         memory or reads a value that counts; grid_dependency_release() lets the next one begin.
//                         A kernel that releases before it waits makes the next one begin while even the kernel
//                         before is running: what the next one reads before it waits is a guess at most
//
// One function is this project's own: will_read(pointer), before a wait, makes a later read of device memory quicker.
#pragma once

#ifdef __CUDACC__
#include "gpu.h"
#else
#include "cpu.h"
#endif
