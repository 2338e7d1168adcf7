// Happens-before, as CUDA promises it, for ThreadSanitizer. Nothing in other builds.
#pragma once

#include <cstdlib>

#include "records.h"

#ifdef EMU_TSAN  // in its runtime, but in none of its headers
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace emu EMU_HIDDEN {

#ifdef EMU_TSAN

// One meeting of threads: all that was before it in any of them is before all that comes after it
// in any of them. Each meeting has a key of its own. A key used again would also pass on what a
// thread did on its way to a *later* meeting, and hide races.
class Meeting {
public:
    explicit Meeting(Context& organiser) : organiser_(organiser), key_(malloc(1)) {}
    EMU_UNSEEN ~Meeting() {
        become(organiser_);
        free(key_);  // forgets the key
    }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

    EMU_UNSEEN void arrive(Context& thread) {
        become(thread);
        __tsan_release(key_);
    }
    EMU_UNSEEN void leave(Context& thread) {
        become(thread);
        __tsan_acquire(key_);
    }

private:
    // Speaks for another thread without running it.
    EMU_UNSEEN static void become(Context& thread) {
        __tsan_switch_to_fiber(thread.tsan_fiber, __tsan_switch_to_fiber_no_sync);
    }
    Context& organiser_;
    void* key_;
};

// Memory taken and cleared for a thread is not an access of that thread.
struct Unseen {
    Unseen() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
    ~Unseen() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
};

#else

struct Meeting {
    explicit Meeting(Context&) {}
    ~Meeting() {}
    void arrive(Context&) {}
    void leave(Context&) {}
};
struct Unseen {
    Unseen() {}
    ~Unseen() {}
};

#endif

}  // namespace emu
