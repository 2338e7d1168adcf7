// Waiting for another thread: the watchdog, and sleep.
#include "check.h"

__global__ void wait_for_flag(volatile int* flag, bool sleep) {
    if (threadIdx.x == 1) *flag = 1;
    if (threadIdx.x == 0) {
        while (!*flag) {
            if (sleep) __nanosleep(100);
        }
    }
}
__global__ void sleep_for_ever() {
    for (;;) __nanosleep(100);
}

#ifndef __SANITIZE_THREAD__  // it holds back signals, so the watchdog cannot speak; and the flag is a race
CHECK(a_spinning_thread_is_stopped) {
    emu_configure("forward", 0, 0, 2);
    int flag = 0;
    EXPECT(LAUNCH(wait_for_flag, 1, 64, 0, nullptr, &flag, false) == cudaErrorLaunchFailure);
    EXPECT(report_says("it spins") && report_says("found at thread 0"));
    EXPECT(LAUNCH(nothing, 1, 64, 0, nullptr) == cudaSuccess);
    EXPECT(LAUNCH(sleep_for_ever, 1, 64, 0, nullptr) == cudaErrorLaunchFailure);
    EXPECT(report_says("__nanosleep"));
    EXPECT(LAUNCH(nothing, 1, 64, 0, nullptr) == cudaSuccess);
}

CHECK(sleeping_lets_the_others_run) {
    for (const char* order : {"forward", "reverse", "random"}) {
        emu_configure(order, 1, 0, 1);
        int flag = 0;
        EXPECT(LAUNCH(wait_for_flag, 1, 64, 0, nullptr, &flag, true) == cudaSuccess);
    }
}
#endif
