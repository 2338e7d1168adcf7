#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace emu EMU_HIDDEN {

static size_t page_bytes() {
    static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

Stack map_stack() {
    void* base = mmap(nullptr, page_bytes() + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base, page_bytes(), PROT_NONE) != 0) {
        perror("emulator: cannot map the stack of a fiber");
        abort();
    }
    return {static_cast<char*>(base) + page_bytes()};
}

void unmap_stack(Stack stack) { munmap(stack.bottom - page_bytes(), page_bytes() + kStackBytes); }

#ifndef EMU_UCONTEXT

// Callee-saved registers and the two floating-point control words go to the old stack, and come
// from the new one. The last value on a stack is the address to go on at.
extern "C" EMU_HIDDEN void emu_switch_stack(void** save_stack_pointer, void* stack_pointer);
asm(R"(
.pushsection .text.emu_switch_stack,"ax",@progbits
.globl emu_switch_stack
.hidden emu_switch_stack
.type emu_switch_stack,@function
.p2align 4
emu_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch_stack,.-emu_switch_stack
.popsection
)");

static void prepare_stack(Context& context, char* top, void (*entry)()) {
    struct Frame {
        uint32_t mxcsr;
        uint16_t x87_control, unused;
        uint64_t r15, r14, r13, r12, rbx, rbp;
        void (*go_on_at)();
        void* return_address;  // null ends a backtrace; it also aligns the stack as a call would
    };
    static_assert(sizeof(Frame) == 72);
    Frame* frame = reinterpret_cast<Frame*>(top - sizeof(Frame));
    *frame = {};
    asm volatile("stmxcsr %0" : "=m"(frame->mxcsr));
    asm volatile("fnstcw %0" : "=m"(frame->x87_control));
    frame->go_on_at = entry;
    context.stack_pointer = frame;
}

#endif

void prepare(Context& context, Stack stack, unsigned index, void (*entry)()) {
    const size_t offset = index % 32 * 128;
#ifdef EMU_ASAN
    // Frames that never returned left their red zones behind.
    __asan_unpoison_memory_region(stack.bottom, kStackBytes);
    context.fake_stack = nullptr;
    context.stack_bottom = stack.bottom;
    context.stack_size = kStackBytes;
#endif
#ifdef EMU_UCONTEXT
    getcontext(&context.ucontext);
    context.ucontext.uc_stack.ss_sp = stack.bottom;
    context.ucontext.uc_stack.ss_size = kStackBytes - offset;
    context.ucontext.uc_link = nullptr;
    makecontext(&context.ucontext, entry, 0);
#else
    prepare_stack(context, stack.bottom + kStackBytes - offset, entry);
#endif
}

#ifdef EMU_ASAN
static __thread Context* left;  // the context that the last switch came from
#endif

EMU_UNSEEN void arrived([[maybe_unused]] Context& context) {
#ifdef EMU_ASAN
    // Also how the bounds of the scheduler's stack become known.
    __sanitizer_finish_switch_fiber(context.fake_stack, &left->stack_bottom, &left->stack_size);
#endif
}

EMU_UNSEEN void switch_context(Context& from, Context& to, [[maybe_unused]] bool ends) {
#ifdef EMU_ASAN
    left = &from;
    __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.stack_bottom, to.stack_size);
#endif
#ifdef EMU_TSAN
    __tsan_switch_to_fiber(to.tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef EMU_UCONTEXT
    swapcontext(&from.ucontext, &to.ucontext);
#else
    emu_switch_stack(&from.stack_pointer, to.stack_pointer);
#endif
    arrived(from);
}

}  // namespace emu
