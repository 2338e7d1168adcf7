// The one header a kernel source includes for CUDA.
//
// nvcc builds the source for the GPU. Any C++17 compiler builds the same source against the
// emulator, which runs every CUDA thread as a fiber on the CPU (docs/emulator.md).
//
// Two constructs cannot be parsed by a C++ compiler and go through macros on both sides:
//
//   SHARED(T, name, N)    instead of  __shared__ T name[N]
//   DYN_SMEM(T, name)     instead of  extern __shared__ T name[]
//   LAUNCH(kernel, grid, block, smem_bytes, stream, args...)   instead of the chevrons;
//                         evaluates to the cudaError_t of the launch
#pragma once

#ifdef __CUDACC__
#include "gpu.h"
#else
#include "cpu.h"
#endif
