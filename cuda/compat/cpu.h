// The CPU side of compat.h: the part of CUDA that the kernels use, for a plain C++17 compiler.
//
// Compile cuda/compat/cpu/*.cpp into the same library; link with pthreads. Sanitizer builds need
// nothing but the sanitizer's flag on every file.
#pragma once

#include "cpu/atomics.h"
#include "cpu/bf16.h"
#include "cpu/launch.h"
#include "cpu/math.h"
#include "cpu/thread.h"
#include "cpu/types.h"
