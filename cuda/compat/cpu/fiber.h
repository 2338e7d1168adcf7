// Fibers: a stack of their own and a saved place to go on from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sanitizer.h"

#if !defined(__x86_64__) && !defined(EMU_UCONTEXT)
#define EMU_UCONTEXT  // portable, and some twenty times slower per switch: it makes system calls
#endif
#ifdef EMU_UCONTEXT
#include <ucontext.h>
#endif

namespace emu EMU_HIDDEN {

// Something that can be switched to: a fiber, or the scheduler on its OS thread's own stack.
struct Context {
    void* stack_pointer;
#ifdef EMU_UCONTEXT
    ucontext_t ucontext;
#endif
#ifdef EMU_ASAN
    void* fake_stack;
    const void* stack_bottom;
    size_t stack_size;
#endif
#ifdef EMU_TSAN
    void* tsan_fiber;
#endif
};

constexpr size_t kStackBytes = 64 * 1024;

struct Stack {
    char* bottom;
};

// Maps a stack with a guard page below it, so that an overflow is a fault and not silent damage.
Stack map_stack();
void unmap_stack(Stack stack);

// Makes `context` start with `entry` at its next switch. `index` spreads the hot ends of the stacks
// over the cache: at equal offsets within a page they would all compete for the same few lines.
void prepare(Context& context, Stack stack, unsigned index, void (*entry)());

// Saves the caller in `from` and goes on in `to`. A context that `ends` is never switched to again.
void switch_context(Context& from, Context& to, bool ends);

// The first call of a new context's entry.
void arrived(Context& context);

}  // namespace emu
