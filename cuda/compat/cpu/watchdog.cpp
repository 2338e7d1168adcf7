#include "watchdog.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "thread.h"

#ifndef EMU_SPIN_LIMIT_MS
#define EMU_SPIN_LIMIT_MS 5000
#endif

namespace emu EMU_HIDDEN {

static const int kSignal = SIGRTMAX - 1;

// Runs on the stack of whatever the signal interrupted. A thread in kernel code is left where it
// is: it was computing, so it holds nothing of the emulator's or of the C library's. One that sleeps
// in a loop is found at its next __nanosleep.
EMU_UNSEEN static void look() {
    Block* block = current_block;
    if (!block) return;  // a late signal
    const bool slept = block->slept;
    block->slept = false;
    block->stalled = block->progress == block->progress_at_look;
    block->progress_at_look = block->progress;
    if (block->stalled && block->in_kernel && !slept)
        stop("a thread runs on without reaching any barrier or warp operation: it spins");
}

// A process may hold several libraries with an emulator. The last one's handler takes the signals of all, and
// each timer says whose `look` it wants.
EMU_UNSEEN static void on_signal(int, siginfo_t* info, void*) {
    if (info->si_code == SI_TIMER) reinterpret_cast<void (*)()>(info->si_value.sival_ptr)();
}

static bool install_handler() {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;  // stop() never returns from the handler
    return sigaction(kSignal, &action, nullptr) == 0;
}

Watchdog::Watchdog(Block& block) {
    static const bool installed = install_handler();
    block.stalled = false;
    block.slept = false;
    block.progress_at_look = block.progress - 1;  // the first look sees progress

    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kSignal;
    event.sigev_value.sival_ptr = reinterpret_cast<void*>(look);
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    armed_ = installed && timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
    if (!armed_) return;
    itimerspec period = {};
    period.it_value.tv_sec = EMU_SPIN_LIMIT_MS / 1000;
    period.it_value.tv_nsec = EMU_SPIN_LIMIT_MS % 1000 * 1000000L;
    period.it_interval = period.it_value;
    timer_settime(timer_, 0, &period, nullptr);
}

Watchdog::~Watchdog() {
    if (armed_) timer_delete(timer_);
}

}  // namespace emu
