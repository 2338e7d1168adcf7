#include "report.h"

#include <mutex>

namespace emu EMU_HIDDEN {

static std::mutex mutex;
static std::string last_report;

static const char* name(Op op) {
    switch (op) {
        case Op::SyncThreads: return "__syncthreads";
        case Op::SyncThreadsCount: return "__syncthreads_count";
        case Op::SyncThreadsAnd: return "__syncthreads_and";
        case Op::SyncThreadsOr: return "__syncthreads_or";
        case Op::SyncWarp: return "__syncwarp";
        case Op::Shuffle: return "a shuffle";
        case Op::Ballot: return "__ballot_sync";
        case Op::Any: return "__any_sync";
        case Op::All: return "__all_sync";
        case Op::MatchAny: return "__match_any_sync";
        case Op::ReduceAdd: return "__reduce_add_sync";
        case Op::ReduceMin: return "__reduce_min_sync";
        case Op::ReduceMax: return "__reduce_max_sync";
        case Op::ReduceAnd: return "__reduce_and_sync";
        case Op::ReduceOr: return "__reduce_or_sync";
    }
    return "?";
}

static std::string text(uint3 v) {
    return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

static std::string text(const Site& site) { return std::string(site.file) + ":" + std::to_string(site.line); }

static std::string text(uint32_t mask) {
    char digits[16];
    snprintf(digits, sizeof digits, "0x%08x", mask);
    return digits;
}

static std::string state_of(const Warp& warp, unsigned lane) {
    const uint32_t bit = 1u << lane;
    if (!(warp.live & bit)) return "exited";
    const bool in_warp = warp.waiting & bit;
    if (!in_warp && !(warp.at_barrier & bit)) return "running";
    const Site& site = *warp.site[lane];
    std::string state = "waits in " + std::string(name(warp.op[lane]));
    if (in_warp) state += ", mask " + text(warp.mask[lane]);
    if (warp.op[lane] == Op::Shuffle) state += ", reads lane " + std::to_string(warp.source[lane]);
    return state + ", at " + text(site) + " (site " + std::to_string(site.number) + ")";
}

// One line per run of neighbours in the same state.
static std::string states(const Block& block) {
    std::string lines;
    for (unsigned first = 0; first < block.threads;) {
        const std::string state = state_of(*block.fibers[first].warp, first % kLanes);
        unsigned end = first + 1;
        while (end < block.threads && state_of(*block.fibers[end].warp, end % kLanes) == state) ++end;
        lines += end - first == 1 ? "  thread " + std::to_string(first)
                                  : "  threads " + std::to_string(first) + "-" + std::to_string(end - 1);
        lines += ": " + state + "\n";
        first = end;
    }
    return lines;
}

static void keep(std::string report) {
    const std::lock_guard<std::mutex> lock(mutex);
    last_report = std::move(report);
}

void report_refusal(const LaunchRequest& request, const std::string& reason) {
    keep(text(*request.site) + ": launch of " + request.kernel + " refused: " + reason + "\n");
}

void report_failure(const LaunchRequest& request, const Block& block) {
    std::string report = text(*request.site) + ": kernel " + request.kernel + ", block " +
                         text(block.block_idx) + ": " + block.failure + "\n";
    if (const Fiber* culprit = block.culprit) {
        const unsigned index = static_cast<unsigned>(culprit - block.fibers);
        report += "  found at thread " + std::to_string(index) + " = " + text(culprit->thread_idx) + "\n";
    }
    keep(report + states(block));
}

extern "C" __attribute__((visibility("default"))) const char* emu_last_report(void) {
    const std::lock_guard<std::mutex> lock(mutex);
    return last_report.c_str();
}

extern "C" __attribute__((visibility("default"))) void emu_clear_report(void) { keep(""); }

}  // namespace emu
