// What the sanitizers must be told about fibers, and what they must not see.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define EMU_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define EMU_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define EMU_TSAN 1
#endif

#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef EMU_TSAN
#include <sanitizer/tsan_interface.h>
#endif

// Functions that touch the emulator's records on behalf of a fiber. To ThreadSanitizer the fibers
// are unrelated threads, so it would report each such access. The mark covers a function's own
// accesses only: what it calls must be marked too, so these functions use plain arrays and no
// standard containers.
#ifdef EMU_TSAN
#define EMU_UNSEEN __attribute__((noinline, no_sanitize("thread")))
#else
#define EMU_UNSEEN
#endif

// Names of the emulator stay inside their library: several CPU builds may share one process.
#define EMU_HIDDEN __attribute__((visibility("hidden")))
