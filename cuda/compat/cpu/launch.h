// LAUNCH: checks the configuration, then runs every block before it returns.
#pragma once

#include <tuple>
#include <utility>

#include "thread.h"

#define LAUNCH(kernel, ...) emu::launch(#kernel, EMU_SITE, kernel, __VA_ARGS__)
#define LAUNCH_DEPENDENT(...) LAUNCH(__VA_ARGS__)  // a launch ends before it returns

inline void grid_dependency_wait() {}
inline void grid_dependency_release() {}
inline void will_read(const void*) {}

namespace emu EMU_HIDDEN {

struct LaunchRequest {
    const char* kernel;
    const Site* site;
    dim3 grid, block;
    size_t dynamic_bytes;
    void (*call)(const void* context);  // one CUDA thread
    const void* context;
};

cudaError_t run(const LaunchRequest& request);

// The arguments are evaluated once and converted to the parameter types here, on the caller. Each
// thread then gets its own copies.
template <class... Params, class... Args>
cudaError_t launch(const char* name, const Site* site, void (*kernel)(Params...), dim3 grid, dim3 block,
                   size_t dynamic_bytes, cudaStream_t, Args&&... args) {
    struct Call {
        void (*kernel)(Params...);
        std::tuple<Params...> params;
    };
    const Call call = {kernel, std::tuple<Params...>(std::forward<Args>(args)...)};
    const auto run_thread = [](const void* context) {
        const Call& c = *static_cast<const Call*>(context);
        std::apply(c.kernel, c.params);
    };
    return run({name, site, grid, block, dynamic_bytes, run_thread, &call});
}

}  // namespace emu
