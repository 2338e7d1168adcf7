// Ends a kernel that spins. Nothing preempts a fiber, so a thread that polls for another's store
// would poll for ever.
#pragma once

#include <ctime>

#include "records.h"

namespace emu EMU_HIDDEN {

// While it lives, a timer looks at the calling thread's block after every EMU_SPIN_LIMIT_MS of CPU
// time. Two looks without progress between them end the launch.
class Watchdog {
public:
    explicit Watchdog(Block& block);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

private:
    timer_t timer_;
    bool armed_;
};

}  // namespace emu
